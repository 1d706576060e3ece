//! Reads what the programs print: several exit with 0 after a failure, so the text is the judge.

/// Words that no healthy run of these programs prints, in lower case.
const COMPLAINTS: &[&str] = &[
    "error",
    "failed",
    "failure",
    "couldn't",
    "could not",
    "unable",
    "invalid data",
    "can't",
    "cannot",
    "not supported",
    "not found",
    "bad ",
    "did not get message",
    "unexpected",
    "panicked",
    "aborted",
    "segmentation",
];

/// The lines that report a failure.
pub fn complaints(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| {
            let line = line.to_lowercase();
            COMPLAINTS.iter().any(|words| has_words(&line, words))
        })
        .collect()
}

/// Whether these words are in the line and do not just end a longer one: a random number in hexadecimal may end in `bad`.
fn has_words(line: &str, words: &str) -> bool {
    line.match_indices(words).any(|(at, _)| !line[..at].ends_with(char::is_alphanumeric))
}

/// What an `ibv_*_pingpong` says at its end.
#[derive(Debug, PartialEq, Eq)]
pub struct PingpongResult {
    /// From `N bytes in T seconds = R Mbit/sec`.
    pub bytes: u64,
    /// From `N iters in T seconds = R usec/iter`.
    pub iterations: u64,
}

/// Finds both lines; `None` if one is missing.
pub fn pingpong(text: &str) -> Option<PingpongResult> {
    let first_number = |middle: &str, unit: &str| {
        text.lines().find_map(|line| {
            let (count, rest) = line.trim().split_once(middle)?;
            rest.trim_end().ends_with(unit).then(|| count.parse().ok()).flatten()
        })
    };
    Some(PingpongResult {
        bytes: first_number(" bytes in ", "Mbit/sec")?,
        iterations: first_number(" iters in ", "usec/iter")?,
    })
}

/// An address line of a pingpong: `  local address:  LID 0x0001, QPN 0x…, PSN 0x…, GID ::`.
#[derive(Debug, PartialEq, Eq)]
pub struct PingpongAddress {
    /// The LID, 0 on Ethernet.
    pub lid: u16,
    /// The GID as printed; `::` when none is used.
    pub gid: String,
}

/// The first `local` or `remote` address line.
pub fn pingpong_address(text: &str, side: &str) -> Option<PingpongAddress> {
    let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{side} address:")))?;
    let lid = line.split_once("LID 0x")?.1.split(',').next()?;
    let gid = line.split_once("GID ")?.1.trim();
    Some(PingpongAddress { lid: u16::from_str_radix(lid.trim(), 16).ok()?, gid: gid.to_owned() })
}

/// A row of the table that perftest prints.
#[derive(Debug, PartialEq)]
pub struct PerftestRow {
    /// The message size.
    pub bytes: u64,
    /// How many messages.
    pub iterations: u64,
    /// The other columns, in the order printed.
    pub figures: Vec<f64>,
}

impl PerftestRow {
    /// Whether the last column that must be positive is: the message rate of a bandwidth test (peak and average are
    /// printed as 0.00 when small or not measured), or the average of a latency test.
    pub fn is_positive(&self) -> bool {
        match self.figures.as_slice() {
            // peak, average, message rate
            [_, _, rate] => *rate > 0.0,
            // minimum, maximum, typical, average, deviation, 99 %, 99.9 %
            [_, maximum, typical, average, _, _, _] => *maximum > 0.0 && *typical > 0.0 && *average > 0.0,
            _ => false,
        }
    }
}

/// The rows of all tables in the text: lines of at least five numbers that begin with two whole ones.
pub fn perftest(text: &str) -> Vec<PerftestRow> {
    text.lines().filter_map(perftest_row).collect()
}

fn perftest_row(line: &str) -> Option<PerftestRow> {
    let mut fields = line.split_whitespace();
    let bytes = fields.next()?.parse().ok()?;
    let iterations = fields.next()?.parse().ok()?;
    let figures: Option<Vec<f64>> = fields.enumerate().map(figure).collect();
    let figures = figures.filter(|figures| figures.len() >= 3)?;
    Some(PerftestRow { bytes, iterations, figures })
}

/// One column behind the first two. perftest prints its standard deviation as `-nan` when rounding makes a variance
/// negative; any other figure must be a number.
fn figure((column, field): (usize, &str)) -> Option<f64> {
    const DEVIATION: usize = 4;
    if column == DEVIATION && field.ends_with("nan") {
        return Some(0.0);
    }
    field.parse().ok().filter(|number: &f64| number.is_finite())
}

/// The figures of a qperf test: lines `    latency  =  1.2 us`, as name and value.
pub fn qperf(text: &str) -> Vec<(String, f64)> {
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once('=')?;
            let value = value.split_whitespace().next()?.replace(',', "");
            Some((name.trim().to_owned(), value.parse().ok()?))
        })
        .collect()
}

/// The last line of the C programs: `N passed, N failed`.
pub fn summary(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().rev().find(|line| line.ends_with(" failed"))?;
    let (passed, failed) = line.split_once(" passed, ")?;
    Some((passed.parse().ok()?, failed.strip_suffix(" failed")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pingpong_that_ended_well_is_read() {
        let text = "  local address:  LID 0x0001, QPN 0x000402, PSN 0x5b1d2c, GID ::
  remote address: LID 0x0001, QPN 0x000403, PSN 0x0a3d29, GID fe80::1
8192000 bytes in 0.01 seconds = 5000.00 Mbit/sec
1000 iters in 0.01 seconds = 13.11 usec/iter
";
        assert_eq!(pingpong(text), Some(PingpongResult { bytes: 8_192_000, iterations: 1000 }));
        assert_eq!(pingpong_address(text, "local"), Some(PingpongAddress { lid: 1, gid: "::".into() }));
        assert_eq!(pingpong_address(text, "remote").unwrap().gid, "fe80::1");
    }

    #[test]
    fn a_pingpong_without_its_last_line_is_no_result() {
        assert_eq!(pingpong("8192000 bytes in 0.01 seconds = 5000.00 Mbit/sec\n"), None);
        assert_eq!(pingpong(""), None);
    }

    #[test]
    fn a_bandwidth_table_is_read() {
        let text = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      500              10250.00            10100.00		   0.161600
---------------------------------------------------------------------------------------
";
        let rows = perftest(text);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].bytes, rows[0].iterations), (65536, 500));
        assert!(rows[0].is_positive());
    }

    #[test]
    fn a_latency_table_is_read() {
        let text = " 2       1000          0.87           6.35         0.91     	       0.93        	0.10   		1.20    		6.35   \n";
        let rows = perftest(text);
        assert_eq!(rows.len(), 1);
        assert!(rows[0].is_positive());
    }

    #[test]
    fn a_deviation_that_is_not_a_number_spoils_nothing() {
        let rows = perftest(
            " 2       1000          0.87           0.91         0.91     0.89    -nan    0.91   0.91\n",
        );
        assert!(rows.len() == 1 && rows[0].is_positive());
    }

    #[test]
    fn a_rate_of_zero_or_not_a_number_does_not_pass() {
        assert!(!perftest(" 65536 500 0.00 0.00 0.000000\n")[0].is_positive());
        assert!(perftest(" 65536 500 -nan nan nan\n").is_empty());
        assert!(perftest(" 65536 500 inf inf inf\n").is_empty());
    }

    #[test]
    fn the_figures_of_qperf_are_read() {
        let text = "rc_lat:\n    latency  =  2.07 us\nrc_bw:\n    bw  =  1,234 MB/sec\n";
        assert_eq!(qperf(text), [("latency".to_owned(), 2.07), ("bw".to_owned(), 1234.0)]);
    }

    #[test]
    fn complaints_are_found_and_plain_output_has_none() {
        assert_eq!(complaints("ok\n Completion with error at client\n").len(), 1);
        assert_eq!(complaints("Couldn't post send\ninvalid data in page 0\n").len(), 2);
        assert!(complaints(" RDMA_Write BW Test\n Dual-port : OFF  Device : nonic0\n").is_empty());
        assert!(complaints(" local address: LID 0x01 QPN 0x5a1000 PSN 0x499bad RKey 0x000103\n").is_empty());
        assert_eq!(complaints("DAT_ERROR: bad handle\n").len(), 1);
    }

    #[test]
    fn a_summary_is_the_last_of_its_kind() {
        assert_eq!(summary("1 passed, 0 failed\n12 passed, 3 failed\nmore\n"), Some((12, 3)));
        assert_eq!(summary("nothing\n"), None);
    }
}
