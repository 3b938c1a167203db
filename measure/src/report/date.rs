//! Days.
use std::time::{SystemTime, UNIX_EPOCH};

/// The day of a time, in UTC: `2026-01-31`.
pub fn day(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let (mut year, mut days) = (1970, seconds / 86_400);
    while days >= length_of(year) {
        days -= length_of(year);
        year += 1;
    }
    let february = if length_of(year) == 366 { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

/// Days of a year of the Gregorian calendar.
fn length_of(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days() {
        let shown = |seconds| day(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(shown(0), "1970-01-01");
        assert_eq!(shown(951_782_400), "2000-02-29");
        assert_eq!(shown(1_798_761_599), "2026-12-31");
    }
}
