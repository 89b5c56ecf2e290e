//! Times as people write them: `90`, `45s`, `10 m`, `2h`, `7d`.

/// The longest time that is taken, seconds: a hundred years. What is longer is a slip of the hand, and sums of it stay in range.
pub const MOST: u64 = 36_500 * 86_400;

/// Returns the seconds of a time: a whole number, alone or with `s`, `m`, `h` or `d` behind it (W31).
///
/// # Errors
/// What is off, as the end of a sentence that begins with the key.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim() {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(shape(text)),
    };
    if number.is_empty() {
        return Err(shape(text));
    }
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    seconds.filter(|seconds| *seconds <= MOST).ok_or_else(|| format!("is {}, longer than 100 years", shown(text)))
}

/// Returns the seconds of a number.
///
/// # Errors
/// As [`parse`].
pub fn of_number(number: i128) -> Result<u64, String> {
    match u64::try_from(number) {
        Ok(seconds) if seconds <= MOST => Ok(seconds),
        Ok(_) => Err(format!("is {number}, longer than 100 years")),
        Err(_) if number < 0 => Err(format!("is {number}, less than nothing")),
        Err(_) => Err(format!("is {number}, longer than 100 years")),
    }
}

/// Returns a time as a person writes it, in the largest unit that it is a whole number of.
pub fn words(seconds: u64) -> String {
    for (unit, name) in [(86_400, 'd'), (3_600, 'h'), (60, 'm')] {
        if seconds >= unit && seconds.is_multiple_of(unit) {
            return format!("{}{name}", seconds / unit);
        }
    }
    format!("{seconds}s")
}

fn shape(text: &str) -> String {
    format!("is {}, no time (a whole number with s, m, h or d, as in 10m)", shown(text))
}

fn shown(text: &str) -> String {
    format!("\"{}\"", crate::text::first_words(text, 40))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_whole_number_and_a_unit() {
        for (text, seconds) in
            [("0", 0), ("90", 90), ("0s", 0), ("45s", 45), (" 10 m ", 600), ("2h", 7_200), ("7d", 604_800)]
        {
            assert_eq!(parse(text), Ok(seconds), "{text}");
        }
        for text in ["", "m", "1.5h", "1h30m", "10M", "+5", "-5", "5 w", "500ms", "٣m", "10m m"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn w31_no_time_wraps() {
        for text in ["300000000000000d", "18446744073709551615", "18446744073709551616", "36501d"] {
            assert!(parse(text).is_err_and(|why| why.contains("100 years")), "{text}");
        }
        assert_eq!(parse("36500d"), Ok(MOST));
        assert!(of_number(-1).is_err() && of_number(i128::MAX).is_err() && of_number(i128::from(u64::MAX)).is_err());
        assert_eq!(of_number(5), Ok(5));
    }

    #[test]
    fn a_time_is_told_in_its_largest_unit() {
        for (seconds, text) in [(0, "0s"), (90, "90s"), (600, "10m"), (7_200, "2h"), (604_800, "7d")] {
            assert_eq!(words(seconds), text);
            assert_eq!(parse(text), Ok(seconds));
        }
    }
}
