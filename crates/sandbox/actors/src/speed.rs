//! How long things take.

use std::{fmt, str::FromStr, time::Duration};

/// How much of the time that things take in a real cluster they take here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speed {
    /// As long as in a real cluster.
    Real,
    /// A twentieth: quick, and every phase can still be seen.
    #[default]
    Fast,
    /// No time at all. Every phase is still written.
    Instant,
}

impl Speed {
    /// How many times as fast as a real cluster it is. Without any time steps take none, and what
    /// has a deadline has that of [`Speed::Fast`].
    pub fn factor(self) -> u32 {
        match self {
            Self::Real => 1,
            Self::Fast | Self::Instant => 20,
        }
    }

    /// How long a step takes at this speed.
    pub fn of(self, step: Step) -> Duration {
        match self {
            Self::Real => step.0,
            Self::Fast => step.0 / self.factor(),
            Self::Instant => Duration::ZERO,
        }
    }
}

impl FromStr for Speed {
    type Err = UnknownSpeed;

    fn from_str(text: &str) -> Result<Self, UnknownSpeed> {
        match text {
            "real" => Ok(Self::Real),
            "fast" => Ok(Self::Fast),
            "instant" => Ok(Self::Instant),
            _ => Err(UnknownSpeed),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Real => "real",
            Self::Fast => "fast",
            Self::Instant => "instant",
        })
    }
}

/// A word that is no speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a speed: use real, fast or instant")]
pub struct UnknownSpeed;

/// Something that takes time, by how long it takes in a real cluster. Each actor names its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step(Duration);

impl Step {
    /// A step of so many milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// A step of so many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_as_they_are_printed() {
        for speed in [Speed::Real, Speed::Fast, Speed::Instant] {
            assert_eq!(speed.to_string().parse(), Ok(speed));
        }
        assert_eq!("slow".parse::<Speed>(), Err(UnknownSpeed));
    }

    #[test]
    fn an_instant_step_takes_no_time() {
        let step = Step::seconds(2);
        assert_eq!(Speed::Real.of(step), Duration::from_secs(2));
        assert_eq!(Speed::Fast.of(step), Duration::from_millis(100));
        assert_eq!(Speed::Instant.of(step), Duration::ZERO);
    }
}
