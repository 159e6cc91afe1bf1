//! Speed of the simulation.

use std::{fmt, str::FromStr, time::Duration};

/// Duration of steps, relative to a real cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speed {
    Real,
    /// A twentieth of the time: fast, and every phase is still observable.
    #[default]
    Fast,
    /// No time, but every phase is still written.
    Instant,
}

impl Speed {
    /// How many times faster than a real cluster. Deadlines of [`Speed::Instant`] are those of
    /// [`Speed::Fast`].
    pub fn factor(self) -> u32 {
        match self {
            Self::Real => 1,
            Self::Fast | Self::Instant => 20,
        }
    }

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a speed: use real, fast or instant")]
pub struct UnknownSpeed;

/// A step's duration in a real cluster. Each actor defines its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step(Duration);

impl Step {
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_parses_from_its_display_form() {
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
