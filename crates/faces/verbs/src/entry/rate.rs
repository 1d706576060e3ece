//! Link rates (`enum ibv_rate`) as multiples of 2.5 Gb/s and as Mb/s.

use core::ffi::c_int;

versions! {
    nonic_ibv_rate_to_mult => "ibv_rate_to_mult@@IBVERBS_1.0";
    nonic_mult_to_ibv_rate => "mult_to_ibv_rate@@IBVERBS_1.0";
    nonic_ibv_rate_to_mbps => "ibv_rate_to_mbps@@IBVERBS_1.1";
    nonic_mbps_to_ibv_rate => "mbps_to_ibv_rate@@IBVERBS_1.1";
}

/// The rate that stands for no limit.
const MAX: c_int = 0;

/// Number of the rate, multiple of 2.5 Gb/s (rounded to whole ones), Mb/s of the link.
const RATES: [(c_int, c_int, c_int); 23] = [
    (2, 1, 2_500),
    (5, 2, 5_000),
    (3, 4, 10_000),
    (6, 8, 20_000),
    (4, 12, 30_000),
    (7, 16, 40_000),
    (8, 24, 60_000),
    (9, 32, 80_000),
    (10, 48, 120_000),
    (11, 6, 14_062),
    (12, 22, 56_250),
    (13, 45, 112_500),
    (14, 67, 168_750),
    (15, 10, 25_781),
    (16, 40, 103_125),
    (17, 80, 206_250),
    (18, 120, 309_375),
    (19, 11, 28_125),
    (20, 20, 53_125),
    (21, 160, 425_000),
    (22, 240, 637_500),
    (23, 320, 850_000),
    (24, 480, 1_275_000),
];

/// `ibv_rate_to_mult(3)`: the multiple of 2.5 Gb/s, -1 for a number that is no rate.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_ibv_rate_to_mult(rate: c_int) -> c_int {
    RATES.iter().find(|row| row.0 == rate).map_or(-1, |row| row.1)
}

/// `mult_to_ibv_rate(3)`: the rate, `IBV_RATE_MAX` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_mult_to_ibv_rate(mult: c_int) -> c_int {
    RATES.iter().find(|row| row.1 == mult).map_or(MAX, |row| row.0)
}

/// `ibv_rate_to_mbps(3)`: the rate in Mb/s, -1 for a number that is no rate.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_ibv_rate_to_mbps(rate: c_int) -> c_int {
    RATES.iter().find(|row| row.0 == rate).map_or(-1, |row| row.2)
}

/// `mbps_to_ibv_rate(3)`: the rate, `IBV_RATE_MAX` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_mbps_to_ibv_rate(mbps: c_int) -> c_int {
    RATES.iter().find(|row| row.2 == mbps).map_or(MAX, |row| row.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_comes_back_from_both_forms() {
        for (rate, ..) in RATES {
            assert_eq!(nonic_mult_to_ibv_rate(nonic_ibv_rate_to_mult(rate)), rate);
            assert_eq!(nonic_mbps_to_ibv_rate(nonic_ibv_rate_to_mbps(rate)), rate);
        }
    }

    #[test]
    fn what_is_no_rate_has_no_form() {
        assert_eq!((nonic_ibv_rate_to_mult(1), nonic_ibv_rate_to_mbps(99)), (-1, -1));
        assert_eq!((nonic_mult_to_ibv_rate(3), nonic_mbps_to_ibv_rate(1)), (MAX, MAX));
    }
}
