//! Users whom people trust by name, where the kernel cannot be asked.

use nonic_sys::overflow_user;

/// Users whose processes may reach this process's memory without a proof. The kernel is not asked whether it would let
/// them, so whoever runs as one of them, in whatever container shares this process's network, may read and write what this
/// process registers, and more: it is shown whole files of which only parts are registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedUsers(Vec<u32>);

/// A user that was named and is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownUser {
    /// No such name.
    #[error("no user is called \"{0}\" here (/etc/passwd): give the number")]
    Name(String),
    /// The number that stands for everybody without one.
    #[error(
        "user {0} stands for everybody whom this user namespace has no number for, so it cannot be trusted"
    )]
    Everybody(u32),
}

impl TrustedUsers {
    /// From a list of names or numbers with commas between them. Empty: nobody.
    pub fn parse(text: &str) -> Result<Self, UnknownUser> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let mut users = Vec::new();
        for word in words {
            let user = match word.parse() {
                Ok(user) => user,
                Err(_) => user_called(word).ok_or_else(|| UnknownUser::Name(word.into()))?,
            };
            if user == overflow_user() || user == u32::MAX {
                return Err(UnknownUser::Everybody(user));
            }
            users.push(user);
        }
        Ok(Self(users))
    }

    /// Whether `user`, as the kernel numbers it for this process, is one of them.
    pub fn contain(&self, user: u32) -> bool {
        self.0.contains(&user)
    }
}

fn user_called(name: &str) -> Option<u32> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_or_numbered() {
        let users = TrustedUsers::parse("root, 1000").unwrap();
        assert!(users.contain(0) && users.contain(1000) && !users.contain(1001));
        assert!(!TrustedUsers::parse("").unwrap().contain(0));
    }

    #[test]
    fn nobody_is_trusted_by_a_number_that_stands_for_everybody_or_a_name_that_is_not_known() {
        let everybody = overflow_user();
        assert_eq!(TrustedUsers::parse(&everybody.to_string()), Err(UnknownUser::Everybody(everybody)));
        assert_eq!(TrustedUsers::parse(&u32::MAX.to_string()), Err(UnknownUser::Everybody(u32::MAX)));
        let name = "no such user";
        assert_eq!(TrustedUsers::parse(name), Err(UnknownUser::Name(name.into())));
        assert!(matches!(TrustedUsers::parse("root,-1"), Err(UnknownUser::Name(_))));
    }
}
