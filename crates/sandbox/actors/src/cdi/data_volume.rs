//! DataVolume controller: creates a claim, and fills it once it is bound.
//!
//! There are no importer pods. Phases, progress and conditions are those of CDI for storage without
//! populators. An upload stays ready, since no one uploads.

use std::time::Duration;

use serde_json::{Value, json};

use super::claim::claim_of;
use crate::{
    Actor, Caches, Context, Key, Kind, Object, Step,
    actor::SELECTED_NODE,
    kind::{CLAIM, DATA_SOURCE, DATA_VOLUME, STORAGE_CLASS},
    object::{controller_key, is_deleted, list, name, namespace, number, text, uid},
    storage::waits_for_consumer,
};

const SCHEDULE: Step = Step::seconds(1);
const TENTH: Step = Step::seconds(1);
const RESTART: Step = Step::seconds(10);
const LEAST_RESTART: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub struct DataVolumes;

/// How a volume is filled; determines the names of its phases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FillMethod {
    Import,
    Clone,
    CloneSnapshot,
    Upload,
}

impl FillMethod {
    fn scheduled(self) -> &'static str {
        match self {
            Self::Import => "ImportScheduled",
            Self::Clone | Self::CloneSnapshot => "CloneScheduled",
            Self::Upload => "UploadScheduled",
        }
    }

    fn in_progress(self) -> &'static str {
        match self {
            Self::Import => "ImportInProgress",
            Self::Clone => "CloneInProgress",
            Self::CloneSnapshot => "CloneFromSnapshotSourceInProgress",
            Self::Upload => "UploadReady",
        }
    }
}

struct Source {
    method: FillMethod,
    /// Namespace and name of the source of a clone.
    copied: Option<(String, String)>,
}

impl Actor for DataVolumes {
    fn name(&self) -> &'static str {
        "cdi-deployment"
    }

    fn watches(&self) -> &[Kind] {
        &[DATA_VOLUME, DATA_SOURCE, CLAIM, STORAGE_CLASS]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        if kind == DATA_VOLUME {
            return vec![Key::of(object)];
        }
        let own = controller_key(object, DATA_VOLUME).into_iter();
        let waiting = caches.all(DATA_VOLUME).filter(|volume| {
            !matches!(text(volume, "/status/phase"), "Succeeded" | "Failed")
                && depends_on(volume, kind, object)
        });
        own.chain(waiting.map(|volume| Key::of(volume))).collect()
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(volume) = ctx.observed(DATA_VOLUME) else {
            return;
        };
        let claim = ctx
            .caches
            .find(CLAIM, namespace(&volume), name(&volume))
            .cloned();
        // If someone deletes the claim of a volume, CDI creates and fills it again.
        let is_done = match text(&volume, "/status/phase") {
            "Succeeded" => claim.is_some(),
            "Failed" => true,
            _ => false,
        };
        if is_deleted(&volume) || is_done {
            return;
        }
        let Some(source) = source(ctx.caches, &volume) else {
            let missing = format!(
                "DataSource {} not found",
                text(&volume, "/spec/sourceRef/name")
            );
            ctx.warning(DATA_VOLUME, &volume, "NotFound", missing.as_str());
            show(
                ctx,
                &volume,
                &Shown {
                    phase: "Pending",
                    bound: Some((missing, "NotFound")),
                    ..Shown::default()
                },
            );
            return;
        };
        match claim {
            None => create_claim(ctx, &volume, &source),
            Some(claim) if !is_ours(&claim, &volume) => {
                let message = format!(
                    "Resource {:?} already exists and is not managed by DataVolume",
                    name(&claim)
                );
                ctx.warning(DATA_VOLUME, &volume, "ErrResourceExists", message.as_str());
                show(
                    ctx,
                    &volume,
                    &Shown {
                        phase: "Pending",
                        bound: Some((message, "ErrResourceExists")),
                        ..Shown::default()
                    },
                );
            }
            Some(claim) if text(&claim, "/status/phase") == "Bound" => fill(ctx, &volume, &source),
            Some(claim) => wait(ctx, &volume, &claim),
        }
    }
}

/// Whether a change of an object may let an unfilled volume make progress.
fn depends_on(volume: &Value, kind: Kind, object: &Value) -> bool {
    match kind {
        STORAGE_CLASS => true,
        DATA_SOURCE => text(volume, "/spec/sourceRef/name") == name(object),
        _ => {
            text(volume, "/spec/source/pvc/name") == name(object)
                || (namespace(volume) == namespace(object) && name(volume) == name(object))
                || volume.pointer("/spec/sourceRef").is_some()
        }
    }
}

fn is_ours(claim: &Value, volume: &Value) -> bool {
    list(claim, "/metadata/ownerReferences")
        .iter()
        .any(|owner| text(owner, "/uid") == uid(volume))
}

fn source(caches: &Caches, volume: &Value) -> Option<Source> {
    let mut given = volume.pointer("/spec/source");
    if let Some(reference) = volume.pointer("/spec/sourceRef") {
        let within = match text(reference, "/namespace") {
            "" => namespace(volume),
            given => given,
        };
        given = Some(
            caches
                .find(DATA_SOURCE, within, text(reference, "/name"))?
                .pointer("/spec/source")?,
        );
    }
    let copied = |pointer: &str| {
        let object = given?.pointer(pointer)?;
        let within = match text(object, "/namespace") {
            "" => namespace(volume),
            given => given,
        };
        Some((within.to_owned(), text(object, "/name").to_owned()))
    };
    let method = match (copied("/pvc"), copied("/snapshot")) {
        (Some(copied), _) => {
            return Some(Source {
                method: FillMethod::Clone,
                copied: Some(copied),
            });
        }
        (None, Some(copied)) => {
            return Some(Source {
                method: FillMethod::CloneSnapshot,
                copied: Some(copied),
            });
        }
        (None, None) if given.is_some_and(|given| given.get("upload").is_some()) => {
            FillMethod::Upload
        }
        (None, None) => FillMethod::Import,
    };
    Some(Source {
        method,
        copied: None,
    })
}

/// Creates the claim once the source of a clone exists.
fn create_claim(ctx: &mut Context<'_>, volume: &Object, source: &Source) {
    let mut size = None;
    if source.method == FillMethod::Clone
        && let Some((within, copied)) = &source.copied
    {
        let Some(original) = ctx.caches.find(CLAIM, within, copied) else {
            let missing = format!("The source pvc {copied} doesn't exist");
            ctx.warning(DATA_VOLUME, volume, "CloneWithoutSource", missing.as_str());
            show(
                ctx,
                volume,
                &Shown {
                    phase: "Pending",
                    bound: Some((missing, "CloneWithoutSource")),
                    ..Shown::default()
                },
            );
            return;
        };
        size = original.pointer("/spec/resources/requests/storage");
    }
    ctx.create(CLAIM, claim_of(ctx.caches, volume, size));
    show(
        ctx,
        volume,
        &Shown {
            phase: "Pending",
            ..Shown::default()
        },
    );
}

fn wait(ctx: &mut Context<'_>, volume: &Object, claim: &Object) {
    let has_no_consumer = waits_for_consumer(ctx.caches, claim)
        && crate::object::annotation(claim, SELECTED_NODE).is_none();
    let phase = if has_no_consumer {
        "WaitForFirstConsumer"
    } else {
        "Pending"
    };
    let bound = Some((format!("PVC {} Pending", name(claim)), "Pending"));
    show(
        ctx,
        volume,
        &Shown {
            phase,
            bound,
            ..Shown::default()
        },
    );
}

/// Fills a bound claim in steps of ten percent.
fn fill(ctx: &mut Context<'_>, volume: &Object, source: &Source) {
    let (method, phase) = (source.method, text(volume, "/status/phase"));
    let scheduled = Shown {
        phase: method.scheduled(),
        is_bound: true,
        ..Shown::default()
    };
    if phase != method.scheduled() && phase != method.in_progress() {
        record_progress(ctx, volume, method.scheduled(), method, "scheduled");
        show(ctx, volume, &scheduled);
        return;
    }
    let restarts = number(volume, "/status/restartCount").unwrap_or_default();
    let running = Shown {
        phase: method.in_progress(),
        is_bound: true,
        is_running: true,
        ..Shown::default()
    };
    if phase == method.scheduled() {
        if ctx.waited("schedule", SCHEDULE) {
            record_progress(ctx, volume, method.in_progress(), method, "in progress");
            show(ctx, volume, &running);
        }
        return;
    }
    if method == FillMethod::Upload {
        return;
    }
    if ctx
        .fault(DATA_VOLUME, volume, "ImportFailed")
        .is_some_and(|fault| fault.fails_attempt(restarts))
    {
        fail(ctx, volume, method, restarts);
        return;
    }
    let done = tenths(volume);
    if !ctx.waited(format!("transfer {restarts} {done}"), TENTH) {
        return;
    }
    if done < 9 {
        let progress = Some(format!("{}.00%", (done + 1) * 10));
        show(
            ctx,
            volume,
            &Shown {
                progress,
                ..running
            },
        );
        return;
    }
    let (reason, message) = match method {
        FillMethod::Import | FillMethod::Upload => (
            "ImportSucceeded",
            format!("Successfully imported into PVC {}", name(volume)),
        ),
        FillMethod::Clone | FillMethod::CloneSnapshot => (
            "CloneSucceeded",
            format!(
                "Successfully cloned into {}/{}",
                namespace(volume),
                name(volume)
            ),
        ),
    };
    ctx.normal(DATA_VOLUME, volume, reason, message);
    show(
        ctx,
        volume,
        &Shown {
            phase: "Succeeded",
            is_bound: true,
            progress: Some("100.0%".to_owned()),
            is_ready: true,
            ..Shown::default()
        },
    );
}

/// Transferred tenths.
fn tenths(volume: &Value) -> u32 {
    let whole = text(volume, "/status/progress").split('.').next();
    whole
        .and_then(|percent| percent.parse::<u32>().ok())
        .unwrap_or_default()
        / 10
}

/// Records a failure of the importer, which is restarted after a delay.
fn fail(ctx: &mut Context<'_>, volume: &Object, method: FillMethod, restarts: i64) {
    let message = "Unable to process data: injected fault ImportFailed";
    let time = if restarts == 0 {
        Duration::ZERO
    } else {
        ctx.speed.of(RESTART).max(LEAST_RESTART)
    };
    if ctx.waited_for(format!("restart {restarts}"), time) {
        ctx.warning(DATA_VOLUME, volume, "Error", message);
        show(
            ctx,
            volume,
            &Shown {
                phase: method.in_progress(),
                is_bound: true,
                error: Some(message),
                restarts: restarts + 1,
                ..Shown::default()
            },
        );
    }
}

fn record_progress(
    ctx: &mut Context<'_>,
    volume: &Object,
    reason: &str,
    method: FillMethod,
    state: &str,
) {
    let message = match method {
        FillMethod::Import => format!("Import into {} {state}", name(volume)),
        FillMethod::Upload => format!("Upload into {} {state}", name(volume)),
        FillMethod::Clone | FillMethod::CloneSnapshot => {
            format!(
                "Cloning into {}/{} {state}",
                namespace(volume),
                name(volume)
            )
        }
    };
    ctx.normal(DATA_VOLUME, volume, reason, message);
}

/// Status of a DataVolume to write.
#[derive(Default)]
struct Shown {
    phase: &'static str,
    is_bound: bool,
    /// Message and reason if it is not bound.
    bound: Option<(String, &'static str)>,
    is_running: bool,
    error: Option<&'static str>,
    is_ready: bool,
    progress: Option<String>,
    restarts: i64,
}

fn show(ctx: &mut Context<'_>, volume: &Object, shown: &Shown) {
    let mut conditions = list(volume, "/status/conditions").to_vec();
    let mut set = |of_type: &str, is_true: bool, reason: &str, message: &str| {
        let status = if is_true { "True" } else { "False" };
        let old = conditions.iter().find(|old| text(old, "/type") == of_type);
        let is_same = old.is_some_and(|old| {
            text(old, "/status") == status
                && text(old, "/reason") == reason
                && text(old, "/message") == message
        });
        if is_same {
            return;
        }
        let mut condition =
            json!({"type": of_type, "status": status, "lastHeartbeatTime": ctx.timestamp()});
        for (field, value) in [("reason", reason), ("message", message)] {
            if !value.is_empty() {
                condition[field] = value.into();
            }
        }
        crate::object::set_condition(&mut conditions, condition, ctx.now);
    };
    let (message, reason) = match &shown.bound {
        Some((message, reason)) => (message.clone(), *reason),
        None if shown.is_bound => (format!("PVC {} Bound", name(volume)), "Bound"),
        None => ("No PVC found".to_owned(), "NotFound"),
    };
    set("Bound", shown.is_bound, reason, &message);
    let transfer = if shown.is_running {
        "TransferRunning"
    } else {
        ""
    };
    set("Ready", shown.is_ready, transfer, "");
    let (reason, message) = match (shown.is_running, shown.is_ready, shown.error) {
        (true, ..) => ("Pod is running", ""),
        (false, true, _) => ("Completed", "Import Complete"),
        (false, false, Some(error)) => ("Error", error),
        (false, false, None) => ("", ""),
    };
    set("Running", shown.is_running, reason, message);
    let restarts = shown
        .restarts
        .max(number(volume, "/status/restartCount").unwrap_or_default());
    let progress =
        shown
            .progress
            .clone()
            .unwrap_or_else(|| match text(volume, "/status/progress") {
                "" => "N/A".to_owned(),
                before => before.to_owned(),
            });
    let mut status = json!({"phase": shown.phase, "progress": progress, "conditions": conditions});
    if restarts > 0 {
        status["restartCount"] = restarts.into();
    }
    if shown.is_bound || shown.bound.is_some() {
        status["claimName"] = name(volume).into();
    }
    ctx.status(DATA_VOLUME, volume, status);
}
