//! Words at the ends of lines, moved apart so that none lies on another.

/// The distance that words need, in pixels.
const DISTANCE: f64 = 16.0;

/// Places as near as can be to the wished ones, in the same order, none nearer to the next than words need, all within the
/// range if they fit at all.
pub(super) fn spread(wished: &[f64], low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<_> = (0..wished.len()).collect();
    order.sort_by(|left, right| wished[*left].total_cmp(&wished[*right]));
    let mut places = vec![0.0; wished.len()];
    let mut least = low;
    for &index in &order {
        places[index] = wished[index].max(least);
        least = places[index] + DISTANCE;
    }
    let mut most = high;
    for &index in order.iter().rev() {
        places[index] = places[index].min(most);
        most = places[index] - DISTANCE;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_would_overlap_move_apart_and_keep_their_order() {
        let places = spread(&[100.0, 101.0, 99.0, 300.0], 0.0, 400.0);
        assert!(places[2] < places[0] && places[0] < places[1], "{places:?}");
        assert!(places[0] - places[2] >= DISTANCE && places[1] - places[0] >= DISTANCE);
        assert_eq!(places[3], 300.0);
    }

    #[test]
    fn words_stay_within_the_range() {
        let places = spread(&[395.0, 396.0, 397.0], 0.0, 400.0);
        assert!(places.iter().all(|place| (0.0..=400.0).contains(place)), "{places:?}");
    }
}
