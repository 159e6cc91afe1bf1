//! Checks of the guest: why it does not run, or is not ready.

use api::{ObservedCondition, condition};

use super::{
    super::{Cause, Finding, Severity},
    RECENT, View,
};

/// A guest that ends before it runs, again and again.
pub(super) fn crash_loop(view: &View<'_>) -> Vec<Finding> {
    let Some(vm) = view.observed.vm.as_ref().filter(|_| view.is_to_run()) else {
        return Vec::new();
    };
    let failures = vm
        .status
        .start_failure
        .map_or(0, |failure| failure.consecutive_fail_count);
    if vm.status.printable_status != "CrashLoopBackOff" && failures == 0 {
        return Vec::new();
    }
    vec![
        view.on(
            "VirtualMachine",
            view.vm_name(),
            Cause::GuestCrashLoop,
            Severity::Broken,
        )
        .says(format!(
            "the guest ends soon after each start; failed starts: {failures}"
        ))
        .remedy(
            "KubeVirt retries with growing delays: check that the boot disk has a system for this \
                 firmware (BIOS or EFI), and the log of the next launcher pod: kubectl logs -l \
                 kubevirt.io=virt-launcher --tail=-1",
        ),
    ]
}

/// A guest that is down although it is to run, by the operator's reason.
pub(super) fn not_running(view: &View<'_>) -> Vec<Finding> {
    let Some(ready) = view
        .condition("Ready")
        .filter(|ready| ready.status == "False")
    else {
        return Vec::new();
    };
    let stopped = [
        ("Crashed", Cause::GuestCrashed, CRASHED),
        ("GuestShutdown", Cause::GuestShutdown, SHUT_DOWN),
        (
            "StoppedByOther",
            Cause::Reported("StoppedByOther".to_owned()),
            "use spec.powerState to stop a Machine, so that it stays down",
        ),
        (
            "Evicted",
            Cause::Reported("Evicted".to_owned()),
            "its node was drained: it starts on another node",
        ),
    ];
    let found = stopped
        .into_iter()
        .find(|(reason, ..)| ready.reason == *reason);
    let finding = found.map(|(_, cause, remedy)| {
        view.on("VirtualMachine", view.vm_name(), cause, Severity::Broken)
            .says(ready.message.clone())
            .remedy(remedy)
    });
    finding.into_iter().collect()
}

const CRASHED: &str = "KubeVirt starts it again: check the guest's own log and console, and whether it has \
                       enough memory";
const SHUT_DOWN: &str = "the guest shut itself down, and is started again because spec.powerState is \
                         Running: set it to Stopped to keep it down";

pub(super) fn not_ready(view: &View<'_>) -> Vec<Finding> {
    let instance = view.observed.instance.as_ref();
    let conditions = instance.map_or(&[][..], |instance| &instance.status.conditions);
    let Some(ready) = view
        .condition("Ready")
        .filter(|ready| ready.reason == "GuestNotReady")
    else {
        return Vec::new();
    };
    let of_instance = condition(conditions, "Ready").filter(|ready| ready.is_false());
    let reason = of_instance.map_or("", |ready: &ObservedCondition| ready.reason.as_str());
    vec![
        view.on("VirtualMachineInstance", view.vm_name(), Cause::GuestNotReady, Severity::Broken)
            .says(ready.message.clone())
            .remedy(match reason {
                "ContainersNotReady" => {
                    "the guest runs, but its readiness probe fails: check the service in the guest that \
                     the probe asks for, and the launcher pod"
                }
                _ => "the guest runs, but KubeVirt reports it as not ready: as the message says",
            }),
    ]
}

/// Crashes and shutdowns of a guest that runs again.
pub(super) fn recent_crashes(view: &View<'_>) -> Vec<Finding> {
    let metadata = &view.observed.machine.metadata;
    let recent = |reason: &'static str, cause: Cause, remedy: &'static str| {
        let event = view.last_event("Machine", metadata, &[reason])?;
        let last = event.last()?;
        (view.since(last) <= RECENT && view.reason() != reason).then(|| {
            let times = match event.count {
                0 | 1 => "once".to_owned(),
                count => format!("{count} times"),
            };
            view.on("VirtualMachine", view.vm_name(), cause, Severity::Degraded)
                .says(format!(
                    "{times}, last {} ago: {}",
                    short(view, last),
                    event.message
                ))
                .remedy(remedy)
        })
    };
    let crashed = recent("Crashed", Cause::GuestCrashed, CRASHED);
    let shut_down = recent("GuestShutdown", Cause::GuestShutdown, SHUT_DOWN);
    crashed.into_iter().chain(shut_down).collect()
}

fn short(view: &View<'_>, time: &api::Time) -> String {
    let seconds = view.since(time).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        _ => format!("{}m", seconds / 60),
    }
}
