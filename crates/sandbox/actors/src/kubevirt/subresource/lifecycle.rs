//! Decision on a subresource request: effects and response, from the VM and its VMI.

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{SubresourceRequest, SubresourceResponse, list::is_known, new_migration, versioned};
use crate::{
    kubevirt::{
        handler::{guest_os, paused},
        launcher::hostname,
        run::{self, is_final},
    },
    object::{condition, is_true, list, name, number, text, uid},
};

const VM_NOT_RUNNING: &str = "VM is not running";
const VMI_NOT_RUNNING: &str = "VMI is not running";

/// A write: a merge patch, or a migration to create.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    PatchVm(Value),
    PatchVmStatus(Value),
    PatchVmi(Value),
    Migrate(Value),
}

/// Effects of a request, and the response once they are executed.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// In order.
    pub effects: Vec<Effect>,
    pub response: SubresourceResponse,
}

/// Decides on a request. An error is the response to a refused request.
pub fn decide(
    request: &SubresourceRequest,
    vm: Option<&Value>,
    vmi: Option<&Value>,
    now: Timestamp,
) -> Result<Decision, SubresourceResponse> {
    let what = (request.resource.as_str(), request.subresource.as_str());
    let reads = matches!(what.1, "guestosinfo" | "userlist" | "filesystemlist");
    let method = if reads { Method::GET } else { Method::PUT };
    let served = matches!(
        what,
        ("virtualmachines", "start" | "stop" | "restart" | "migrate")
            | (
                "virtualmachineinstances",
                "pause"
                    | "unpause"
                    | "softreboot"
                    | "reset"
                    | "freeze"
                    | "unfreeze"
                    | "guestosinfo"
                    | "userlist"
                    | "filesystemlist"
            )
    );
    if !served {
        return Err(if is_known(what.0, what.1) {
            SubresourceResponse::not_implemented(&format!("{}/{}", what.0, what.1))
        } else {
            SubresourceResponse::unknown()
        });
    }
    if request.method != method {
        return Err(SubresourceResponse::wrong_method());
    }
    if !request.body.is_null() && !request.body.is_object() {
        let why = "Can not unmarshal Request body to struct, error: json: cannot unmarshal the \
                   body into an object";
        return Err(SubresourceResponse::bad_request(why));
    }
    let subject = Subject { request, vm, vmi };
    match what.1 {
        "start" => subject.start(),
        "stop" => subject.stop(),
        "restart" => subject.restart(),
        "migrate" => subject.migrate(),
        "pause" => subject.pause(now),
        "unpause" => subject.unpause(),
        "softreboot" => subject.soft_reboot(),
        "reset" => subject.reset(),
        "freeze" | "unfreeze" => subject.freeze(),
        _ => subject.ask_agent(),
    }
}

fn accepted(effects: Vec<Effect>) -> Decision {
    let response = SubresourceResponse::empty(202);
    Decision { effects, response }
}

fn done(effect: Option<Effect>) -> Decision {
    let response = SubresourceResponse::empty(200);
    Decision {
        effects: effect.into_iter().collect(),
        response,
    }
}

/// A request, and the VM and VMI of its name.
struct Subject<'a> {
    request: &'a SubresourceRequest,
    vm: Option<&'a Value>,
    vmi: Option<&'a Value>,
}

impl Subject<'_> {
    fn vm(&self) -> Result<&Value, SubresourceResponse> {
        let missing = || SubresourceResponse::not_found("virtualmachine", &self.request.name);
        self.vm.ok_or_else(missing)
    }

    fn vmi(&self) -> Result<&Value, SubresourceResponse> {
        let missing =
            || SubresourceResponse::not_found("virtualmachineinstance", &self.request.name);
        self.vmi.ok_or_else(missing)
    }

    fn running(&self, otherwise: &str) -> Result<&Value, SubresourceResponse> {
        let vmi = self.vmi()?;
        if text(vmi, "/status/phase") == "Running" {
            Ok(vmi)
        } else {
            Err(self.conflict(otherwise))
        }
    }

    fn conflict(&self, why: &str) -> SubresourceResponse {
        let resource = self.request.resource.trim_end_matches('s');
        SubresourceResponse::conflict(resource, &self.request.name, why)
    }

    fn start(&self) -> Result<Decision, SubresourceResponse> {
        let vm = self.vm()?;
        let phase = self.vmi.map_or("", |vmi| text(vmi, "/status/phase"));
        if !matches!(phase, "" | "Unknown" | "Succeeded" | "Failed") {
            return Err(self.conflict("VM is already running"));
        }
        let paused = self.request.body.get("paused") == Some(&json!(true));
        let start = if paused {
            json!({ "action": "Start", "data": { "paused": "true" } })
        } else {
            json!({ "action": "Start" })
        };
        match run::strategy(vm) {
            "Halted" if paused => request_changes(vm, &[start]).map(accepted),
            "Halted" => Ok(accepted(vec![Effect::PatchVm(run_patch(vm, true))])),
            "RerunOnFailure" if phase == "Failed" => {
                Err(self.conflict("RerunOnFailure does not support starting VM from failed state"))
            }
            "RerunOnFailure" | "Manual" => match self.vmi.filter(|vmi| is_final(vmi)) {
                Some(ended) => {
                    let stop = json!({ "action": "Stop", "uid": uid(ended) });
                    request_changes(vm, &[stop, start]).map(accepted)
                }
                None => request_changes(vm, &[start]).map(accepted),
            },
            strategy => Err(self.conflict(&format!(
                "{strategy} does not support manual start requests"
            ))),
        }
    }

    fn stop(&self) -> Result<Decision, SubresourceResponse> {
        let vm = self.vm()?;
        let running = self.vmi.filter(|vmi| !is_final(vmi));
        let wanted = number(&self.request.body, "/gracePeriod");
        let mut effects = Vec::new();
        if let (Some(vmi), Some(grace)) = (running, wanted) {
            let spec = json!({ "spec": { "terminationGracePeriodSeconds": grace } });
            effects.push(Effect::PatchVmi(versioned(vmi, spec)));
        }
        match (run::strategy(vm), running) {
            ("Always" | "Once", _) => effects.push(Effect::PatchVm(run_patch(vm, false))),
            (_, None) => return Err(self.conflict(VM_NOT_RUNNING)),
            (strategy, Some(vmi)) => {
                let given = number(vmi, "/spec/terminationGracePeriodSeconds");
                let longer =
                    given.is_some_and(|given| wanted.is_some_and(|wanted| wanted >= given));
                if strategy == "Halted" && (wanted.is_none() || longer) {
                    let why =
                        "Halted only supports manual stop requests with a shorter graceperiod";
                    return Err(self.conflict(why));
                }
                let stop = json!({ "action": "Stop", "uid": uid(vmi) });
                effects.extend(request_changes(vm, &[stop])?);
            }
        }
        Ok(accepted(effects))
    }

    fn restart(&self) -> Result<Decision, SubresourceResponse> {
        let grace = number(&self.request.body, "/gracePeriodSeconds");
        if grace.is_some_and(|grace| grace > 0) {
            let why = "For force restart, only gracePeriod=0 is supported for now";
            return Err(SubresourceResponse::bad_request(why));
        }
        if grace.is_some_and(|grace| grace < 0) {
            let why = "gracePeriod has to be greater or equal to 0";
            return Err(SubresourceResponse::bad_request(why));
        }
        let vm = self.vm()?;
        let strategy = run::strategy(vm);
        if matches!(strategy, "Halted" | "Once") {
            // KubeVirt's own typo.
            let why = format!("RunStategy {strategy} does not support manual restart requests");
            return Err(self.conflict(&why));
        }
        let Some(vmi) = self.vmi else {
            return Err(self.conflict("VM is not running: Halted"));
        };
        let mut effects = Vec::new();
        if grace.is_some() {
            let spec = json!({ "spec": { "terminationGracePeriodSeconds": 1 } });
            effects.push(Effect::PatchVmi(versioned(vmi, spec)));
        }
        let stop = json!({ "action": "Stop", "uid": uid(vmi) });
        let start = json!({ "action": "Start" });
        effects.extend(request_changes(vm, &[stop, start])?);
        Ok(accepted(effects))
    }

    fn migrate(&self) -> Result<Decision, SubresourceResponse> {
        self.vm()?;
        let vmi = self.running(VM_NOT_RUNNING)?;
        let migration = new_migration(vmi, &self.request.body);
        Ok(accepted(vec![Effect::Migrate(migration)]))
    }
    fn pause(&self, now: Timestamp) -> Result<Decision, SubresourceResponse> {
        let vmi = self.running(VM_NOT_RUNNING)?;
        let probe = vmi.pointer("/spec/livenessProbe");
        if probe.is_some_and(|probe| probe.get("guestAgentPing").is_none()) {
            let why = "Pausing VMIs with a non-GuestAgentPing LivenessProbe is not supported";
            return Err(SubresourceResponse::forbidden(
                "virtualmachineinstance",
                name(vmi),
                why,
            ));
        }
        if condition(vmi, "Paused").is_some() {
            return Err(self.conflict("VMI is already paused"));
        }
        let mut conditions = list(vmi, "/status/conditions").to_vec();
        conditions.push(paused(now));
        Ok(self.set_conditions(vmi, &conditions))
    }

    fn unpause(&self) -> Result<Decision, SubresourceResponse> {
        if self
            .vm
            .is_some_and(|vm| !text(vm, "/status/snapshotInProgress").is_empty())
        {
            let why = "VM snapshot is in progress";
            return Err(SubresourceResponse::conflict(
                "virtualmachine",
                &self.request.name,
                why,
            ));
        }
        let vmi = self.running(VMI_NOT_RUNNING)?;
        if condition(vmi, "Paused").is_none() {
            return Err(self.conflict("VMI is not paused"));
        }
        Ok(self.without_condition(vmi, "Paused"))
    }

    fn soft_reboot(&self) -> Result<Decision, SubresourceResponse> {
        let vmi = self.running(VM_NOT_RUNNING)?;
        if is_true(vmi, "Paused") {
            return Err(self.conflict("VMI is paused"));
        }
        let no_acpi = vmi.pointer("/spec/domain/features/acpi/enabled") == Some(&json!(false));
        if condition(vmi, "AgentConnected").is_none() && no_acpi {
            let why = "VMI neither have the agent connected nor the ACPI feature enabled";
            return Err(self.conflict(why));
        }
        Ok(self.without_condition(vmi, "AgentConnected"))
    }

    fn reset(&self) -> Result<Decision, SubresourceResponse> {
        let vmi = self.vmi()?;
        let phase = text(vmi, "/status/phase");
        if phase != "Running" {
            let why = format!("Failed to reset non-running VMI with phase {phase}");
            return Err(SubresourceResponse::internal(&why));
        }
        Ok(self.without_condition(vmi, "AgentConnected"))
    }

    fn freeze(&self) -> Result<Decision, SubresourceResponse> {
        let freezes = self.request.subresource == "freeze";
        let vmi = self.running(if freezes {
            VM_NOT_RUNNING
        } else {
            VMI_NOT_RUNNING
        })?;
        let state = if freezes {
            json!("frozen")
        } else {
            Value::Null
        };
        let patch = json!({ "status": { "fsFreezeStatus": state } });
        Ok(done(Some(Effect::PatchVmi(versioned(vmi, patch)))))
    }

    /// virt-api responds with plain text if there is no agent.
    fn ask_agent(&self) -> Result<Decision, SubresourceResponse> {
        let problem = |response: SubresourceResponse| SubresourceResponse {
            code: 500,
            body: response.body.get("message").cloned().unwrap_or_default(),
        };
        let vmi = self.running(VMI_NOT_RUNNING).map_err(problem)?;
        if condition(vmi, "AgentConnected").is_none() {
            let why = "VMI does not have guest agent connected";
            return Err(problem(self.conflict(why)));
        }
        let body = match self.request.subresource.as_str() {
            "guestosinfo" => json!({
                "guestAgentVersion": "9.2.0",
                "hostname": hostname(vmi),
                "os": guest_os(vmi),
                "timezone": "UTC, 0",
                "fsFreezeStatus": match text(vmi, "/status/fsFreezeStatus") {
                    "" => "thawed",
                    state => state,
                },
            }),
            _ => json!({ "metadata": {}, "items": [] }),
        };
        Ok(Decision {
            effects: Vec::new(),
            response: SubresourceResponse::object(body),
        })
    }

    fn without_condition(&self, vmi: &Value, of_type: &str) -> Decision {
        let mut conditions = list(vmi, "/status/conditions").to_vec();
        conditions.retain(|condition| text(condition, "/type") != of_type);
        self.set_conditions(vmi, &conditions)
    }

    fn set_conditions(&self, vmi: &Value, conditions: &[Value]) -> Decision {
        let dry_run = list(&self.request.body, "/dryRun")
            .iter()
            .any(|mode| mode == "All");
        let patch = versioned(vmi, json!({ "status": { "conditions": conditions } }));
        done((!dry_run).then_some(Effect::PatchVmi(patch)))
    }
}

/// Adds requests to the VM's status. Only a stop may replace others.
fn request_changes(vm: &Value, changes: &[Value]) -> Result<Vec<Effect>, SubresourceResponse> {
    let pending = !list(vm, "/status/stateChangeRequests").is_empty();
    let stops = changes.len() == 1
        && changes
            .first()
            .is_some_and(|change| text(change, "/action") == "Stop");
    if pending && !stops {
        let why = "unable to complete request: stop/start already underway";
        return Err(SubresourceResponse::internal(why));
    }
    let status = json!({ "stateChangeRequests": changes, "startFailure": null });
    let patch = versioned(vm, json!({ "status": status }));
    Ok(vec![Effect::PatchVmStatus(patch)])
}

fn run_patch(vm: &Value, running: bool) -> Value {
    let spec = if text(vm, "/spec/runStrategy").is_empty() {
        json!({ "running": running })
    } else {
        json!({ "runStrategy": if running { "Always" } else { "Halted" } })
    };
    versioned(vm, json!({ "spec": spec }))
}
