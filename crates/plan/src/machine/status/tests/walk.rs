//! Random sequences of events.

use api::{
    MachineStatus,
    Phase::{self, Creating, Failed, Pending, Running, Stopped},
};
use serde_json::json;

use super::World;

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % sides
    }
}

fn happen(world: &mut World, dice: &mut Dice) {
    match dice.roll(14) {
        0 => world.vm = None,
        1 => world.vm(json!({"printableStatus": "Starting"})),
        2 => world.vm(json!({
            "printableStatus": "CrashLoopBackOff",
            "startFailure": {"consecutiveFailCount": dice.roll(3)},
        })),
        3 => {
            if let Some(vm) = &mut world.vm {
                vm.spec = (&json!({"runStrategy": "Halted"})).into();
            }
        }
        4 => world.instance = None,
        5 => world.up(),
        6 => {
            let phases = [
                "Pending",
                "Scheduling",
                "Scheduled",
                "Succeeded",
                "Failed",
                "Unknown",
            ];
            let phase = phases[usize::try_from(dice.roll(6)).unwrap()];
            world.instance(json!({"phase": phase, "nodeName": "n1"}));
        }
        7 => world.instance(json!({"phase": "Scheduling", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        ]})),
        8 if world.instance.is_some() => world.end_instance(),
        9 => world.power(["Running", "Stopped", "Paused"][usize::try_from(dice.roll(3)).unwrap()]),
        10 => world.machine.spec.template = (dice.roll(2) == 0).then(|| "gone".to_owned()),
        11 => world.installed.kubevirt = dice.roll(3) > 0,
        12 => world.claim(if dice.roll(2) == 0 {
            "Pending"
        } else {
            "Bound"
        }),
        _ => world.later(4_000),
    }
    if !world.installed.kubevirt {
        world.vm = None;
        world.instance = None;
    }
}

fn is_allowed(from: Phase, to: Phase) -> bool {
    match from {
        Pending => matches!(to, Pending | Creating | Failed),
        Creating => matches!(to, Creating | Running | Stopped | Failed),
        Running | Stopped => matches!(to, Running | Stopped | Failed),
        Failed => true,
    }
}

#[test]
fn phases_follow_the_table_and_the_status_converges() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let mut world = World::new(json!({}));
        let mut has_run = false;
        for _ in 0..40 {
            happen(&mut world, &mut dice);
            let (written, events) = (world.written.len(), world.events.len());
            let before = world.machine.status.clone();
            world.reconcile();
            let steps = before.as_ref().into_iter().chain(&world.written[written..]);
            let steps: Vec<&MachineStatus> = steps.collect();
            for pair in steps.windows(2) {
                let (from, to) = (pair[0].phase.unwrap(), pair[1].phase.unwrap());
                assert!(is_allowed(from, to), "seed {seed}: {from:?} to {to:?}");
            }
            has_run |= world.phase() == Running;
            assert!(
                !has_run || world.phase() != Creating,
                "seed {seed}: creating again"
            );
            assert!(world.written.len() <= written + 2, "seed {seed}");
            assert!(world.events.len() <= events + 2, "seed {seed}");
            assert_eq!(
                world.ready().starts_with("True"),
                world.ready() == "True Running",
                "seed {seed}"
            );
            let conditions = world.status().conditions.as_deref().unwrap();
            let mut types: Vec<&str> = conditions.iter().map(|it| it.type_.as_str()).collect();
            let count = types.len();
            types.sort_unstable();
            types.dedup();
            assert_eq!(types.len(), count, "seed {seed}: one per type");
        }
    }
}
