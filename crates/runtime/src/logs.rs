//! Logs, one line an event.
//!
//! Guaranteed: an event is one line, whatever its values hold; a JSON line begins with the fields
//! `timestamp`, `level`, `controller`, `machine`, `namespace`, `phase` and `message`, in this order
//! and as far as the event has them, followed by its other fields in the order of their names. A
//! log that cannot be written is lost without a word: nobody is left to be told.
//!
//! Fields come from the event itself, not from spans:
//! `info!(controller = "Machine", machine, namespace, phase, "Creating VirtualMachine resource")`.

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

/// Crates that [`Level`] speaks of.
const OURS: [&str; 4] = ["kubevirt_operator", "runtime", "plan", "api"];

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What went wrong and needs somebody.
    Error,
    /// What may go wrong.
    Warn,
    /// What was done.
    #[default]
    Info,
    /// Why it was done.
    Debug,
    /// Everything, libraries included.
    Trace,
}

/// What a line looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object.
    #[default]
    Json,
    /// For people.
    Text,
}

/// A word that names no [`Level`] or no [`Format`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {allowed}")]
pub struct UnknownWord {
    allowed: &'static str,
}

impl FromStr for Level {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text.to_ascii_lowercase().as_str() {
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            "trace" => Ok(Self::Trace),
            _ => Err(UnknownWord {
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
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text.to_ascii_lowercase().as_str() {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err(UnknownWord {
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

/// Logs to standard error from now on. Does nothing when the process logs already.
pub fn init(level: Level, format: Format) {
    let subscriber = subscriber(level, format, io::stderr, Timestamp::now);
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// What [`init`] installs, with the writer and the clock handed in.
pub fn subscriber<W, C>(
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
        format,
        writer,
        clock,
    };
    Registry::default().with(lines.with_filter(targets(level)))
}

/// The crates that log at `level`; libraries tell only what may go wrong.
fn targets(level: Level) -> Targets {
    let libraries = match level {
        Level::Trace => Level::Trace,
        level => level.min(Level::Warn),
    };
    Targets::new()
        .with_default(libraries)
        .with_targets(OURS.map(|name| (name, level)))
        // It logs answers that it cannot read as a whole, and an answer may hold a Secret.
        .with_target("kube_client::client", Level::Error)
        .with_target("kube_client::client::tls", level.min(Level::Warn))
}

/// Writes each event as a line.
struct Lines<W, C> {
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
            Format::Json => line.json(),
            Format::Text => line.text(),
        };
        let mut writer = self.writer.make_writer_for(event.metadata());
        // One call, so that lines of several threads do not mix.
        let _ = io::Write::write_all(&mut writer, text.as_bytes());
    }
}
