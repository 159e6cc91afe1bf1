//! Log output: one line per event, as JSON or text.
//!
//! Guaranteed: an event is one line, whatever its values contain. A JSON line starts with
//! `timestamp`, `level`, the program's leading fields and `message`, as far as the event has them;
//! the other fields follow in the order of their names. A line that cannot be written is dropped.
//!
//! Fields come from the event itself, not from spans.

mod line;
#[cfg(test)]
mod tests;

use std::{fmt, io, str::FromStr};

use jiff::Timestamp;
use tracing::{Event, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    fmt::MakeWriter,
    layer::{Context, SubscriberExt as _},
};

use line::Line;

/// What a program logs.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Crates that log at the configured level; others log warnings and errors.
    pub crates: &'static [&'static str],
    /// Fields that come first on a line, in this order.
    pub leading_fields: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    /// Everything, libraries included.
    Trace,
}

/// Format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Json,
    Text,
}

/// Text that is neither a [`Level`] nor a [`Format`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {allowed}")]
pub struct UnknownName {
    allowed: &'static str,
}

impl FromStr for Level {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text.to_ascii_lowercase().as_str() {
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            "trace" => Ok(Self::Trace),
            _ => Err(UnknownName {
                allowed: "error, warn, info, debug, trace",
            }),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        })
    }
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

impl FromStr for Format {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text.to_ascii_lowercase().as_str() {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err(UnknownName {
                allowed: "json, text",
            }),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "json",
            Self::Text => "text",
        })
    }
}

/// Starts logging to standard error. Does nothing if the process logs already.
pub fn init(program: Program, level: Level, format: Format) {
    let subscriber = subscriber(program, level, format, io::stderr, Timestamp::now);
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// The subscriber that [`init`] installs, for another writer and clock.
pub fn subscriber<W, C>(
    program: Program,
    level: Level,
    format: Format,
    writer: W,
    clock: C,
) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    C: Fn() -> Timestamp + Send + Sync + 'static,
{
    let lines = Lines {
        program,
        format,
        writer,
        clock,
    };
    Registry::default().with(lines.with_filter(targets(program, level)))
}

/// The crates of the program log at `level`, libraries log warnings and errors.
fn targets(program: Program, level: Level) -> Targets {
    let libraries = match level {
        Level::Trace => Level::Trace,
        level => level.min(Level::Warn),
    };
    Targets::new()
        .with_default(libraries)
        .with_targets(program.crates.iter().map(|name| (*name, level)))
        // It logs the whole body of a response that it cannot decode, which may be a Secret.
        .with_target("kube_client::client", Level::Error)
        .with_target("kube_client::client::tls", level.min(Level::Warn))
}

/// Writes each event as a line.
struct Lines<W, C> {
    program: Program,
    format: Format,
    writer: W,
    clock: C,
}

impl<S, W, C> Layer<S> for Lines<W, C>
where
    S: Subscriber,
    W: for<'a> MakeWriter<'a> + 'static,
    C: Fn() -> Timestamp + 'static,
{
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::new((self.clock)(), *event.metadata().level());
        event.record(&mut line);
        let text = match self.format {
            Format::Json => line.json(self.program.leading_fields),
            Format::Text => line.text(self.program.leading_fields),
        };
        let mut writer = self.writer.make_writer_for(event.metadata());
        // One write, so that lines of several threads do not interleave.
        let _ = io::Write::write_all(&mut writer, text.as_bytes());
    }
}
