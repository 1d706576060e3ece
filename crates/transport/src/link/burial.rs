//! What an ended link lets go of: memory of the peer, which would otherwise live as long as the last queue pair that was
//! connected to it.

use nonic_sys::{FenceReach, heavy_fence};

use super::{Link, OWN_PATIENCE};

impl Link {
    /// Lets go of the peer's memory, and of the rings once the peer can have no operation under way: the link has ended, and
    /// what was said in its rings is known. Mappings stay where they are and hold zeros, for whoever still looks.
    pub fn let_go(&self) {
        let nobody_inside = || {
            // An operation that did not see the link's end is in its slot; later ones leave at once.
            heavy_fence(FenceReach::Process);
            self.party.memory.slots().wait_idle(OWN_PATIENCE)
        };
        if self.is_loopback() || !self.is_dead() || !nobody_inside() {
            return;
        }
        self.reach.let_go();
        self.channel.let_go_of_calls();
        if !self.peer_may_operate() {
            self.channel.let_go();
        }
    }
}
