//! The figures in what these programs print: nanoseconds, or operations per second.

use crate::bench::physical::nanoseconds_a_tick;

/// The line `Final:` of `ucx_perftest`: count, then median, average, overall in microseconds; two bandwidths; two rates.
pub(super) fn ucx(output: &str, rate: bool) -> Option<f64> {
    let line = output.lines().rev().find_map(|line| line.trim_start().strip_prefix("Final:"))?;
    let numbers = numbers(line);
    if rate { positive(numbers.get(7)) } else { positive(numbers.get(1)).map(|us| us * 1e3) }
}

/// The last line of `fi_pingpong`: `usec/xfer` is the last but one.
pub(super) fn ping_pong(output: &str) -> Option<f64> {
    let line = output.lines().rev().find(|line| !line.trim().is_empty())?;
    let words: Vec<_> = line.split_whitespace().collect();
    let word = words.get(words.len().checked_sub(2)?)?;
    positive(word.parse().ok().as_ref()).map(|us| us * 1e3)
}

/// The one row of perftest's table that begins with two numbers. Latencies are in ticks (`-C`), the typical one fifth;
/// rates in millions, the fifth.
pub(super) fn perftest(output: &str, rate: bool) -> Option<f64> {
    let mut rows = output.lines().map(numbers).filter(|numbers| numbers.len() >= 5);
    let row = rows.next_back()?;
    let value = positive(row.get(4))?;
    Some(if rate { value * 1e6 } else { value * nanoseconds_a_tick() })
}

/// A version number among the words of such a program.
pub(super) fn version(output: &str) -> Option<String> {
    let mut words = output.split_whitespace();
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    words.find(is_version).map(str::to_owned)
}

/// The numbers that a line consists of; none if it holds anything else.
fn numbers(line: &str) -> Vec<f64> {
    line.split_whitespace().map(str::parse).collect::<Result<_, _>>().unwrap_or_default()
}

fn positive(number: Option<&f64>) -> Option<f64> {
    number.copied().filter(|number| number.is_finite() && *number > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ucx_times_are_medians_and_ucx_rates_are_messages() {
        let output = "|    Stage     | # iterations | 50.0%ile | average |\n\
            Final:                 20000      0.631     0.625     0.625       12.21      12.21     1600437     1600438\n";
        assert_eq!(ucx(output, false), Some(631.0));
        assert_eq!(ucx(output, true), Some(1_600_438.0));
        assert_eq!(ucx("no such test", false), None);
    }

    #[test]
    fn ping_pong_tells_microseconds_a_transfer() {
        let output = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
            64k     1k      =1k      125m        0.02s   7776.91       8.43       0.12\n";
        assert_eq!(ping_pong(output), Some(8430.0));
        assert_eq!(ping_pong("[error] nothing"), None);
    }

    #[test]
    fn perftest_rows_are_found_among_its_words() {
        let latency = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]\n \
            8       5000          4680.00        87048.00      4823.00  \t       4875.48     \t927.70 \t\t5291.00\n---\n";
        let typical = perftest(latency, false).unwrap();
        assert!((typical / nanoseconds_a_tick() - 4823.0).abs() < 1e-6, "{typical}");
        let rate = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n \
            8          50000            0.00               27.40  \t\t   3.591194\n";
        assert_eq!(perftest(rate, true), Some(3_591_194.0));
        assert_eq!(perftest("Couldn't connect to 127.0.0.1", true), None);
    }

    #[test]
    fn versions_are_found_among_words() {
        assert_eq!(version("# Version 1.13.1\n# Git").as_deref(), Some("1.13.1"));
        assert_eq!(version("fi_info: 1.17.0\nlibfabric: 1.17.0").as_deref(), Some("1.17.0"));
        assert_eq!(version("Version: 6.06").as_deref(), Some("6.06"));
        assert_eq!(version("no"), None);
    }
}
