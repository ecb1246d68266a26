//! Sums of times and durations, as late or early as a timestamp can be at most. A time may come from a tag, which every user
//! of the project can write, or from a machine with a wrong clock; a duration may come from a server.

use jiff::{SignedDuration, Timestamp, TimestampArithmetic};

/// How far the clocks of two servers, or of two controllers, may be apart.
pub const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(60);

/// `time + duration`.
pub fn after(time: Timestamp, duration: impl Into<TimestampArithmetic>) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

/// `time - duration`.
pub fn before(time: Timestamp, duration: impl Into<TimestampArithmetic>) -> Timestamp {
    time.saturating_sub(duration).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn sums_stay_within_what_a_timestamp_can_be() {
        let second = SignedDuration::from_secs(1);
        assert_eq!(after(Timestamp::UNIX_EPOCH, second).as_second(), 1);
        assert_eq!(before(Timestamp::UNIX_EPOCH, second).as_second(), -1);
        assert_eq!(after(Timestamp::MAX, second), Timestamp::MAX);
        assert_eq!(after(Timestamp::UNIX_EPOCH, Duration::MAX), Timestamp::MAX);
        assert_eq!(before(Timestamp::MIN, second), Timestamp::MIN);
        assert_eq!(before(Timestamp::UNIX_EPOCH, Duration::MAX), Timestamp::MIN);
    }
}
