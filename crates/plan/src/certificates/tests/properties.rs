//! Whatever happens, every client trusts every server.

use proptest::prelude::*;

use super::{world::*, *};

/// Something that happens to an installation.
#[derive(Clone, Debug)]
enum Event {
    /// The operator dies after so many writes, and is back after a part of the time that it may be
    /// away.
    Death { writes: usize, part: i32 },
    /// Everything is as it should be for so many minutes.
    Peace { minutes: i64 },
    /// Somebody deletes the Secret of a CA.
    LostCa,
    /// Somebody deletes the Secret of a certificate.
    LostLeaf { which: usize },
    /// Somebody changes the durations.
    Durations { ca: i64, server: i64 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0usize..6, 1i32..8).prop_map(|(writes, part)| Event::Death { writes, part }),
        4 => (1i64..20_000).prop_map(|minutes| Event::Peace { minutes }),
        1 => Just(Event::LostCa),
        1 => (2usize..5).prop_map(|which| Event::LostLeaf { which }),
        1 => (48i64..2000, 12i64..48).prop_map(|(ca, server)| Event::Durations { ca, server }),
    ]
}

/// No reader is slower.
const DELAY: SignedDuration = SignedDuration::from_mins(10);

struct Run {
    world: World,
    /// For how long the operator may be away before something expires.
    spare: SignedDuration,
    /// Nobody has read anything before there was anything to read.
    begun: Timestamp,
}

impl Run {
    /// Lets time pass with nobody looking.
    fn pass(&mut self, until: Timestamp) -> Result<(), TestCaseError> {
        // Every moment at which someone may have read something for the last time is among these.
        while self.world.now < until {
            self.check()?;
            self.world.now = (self.world.now + SignedDuration::from_mins(7)).min(until);
        }
        self.check()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let delay = DELAY.min(self.world.now.duration_since(self.begun));
        self.world.verify(delay).map_err(TestCaseError::fail)
    }

    fn peace(&mut self, until: Timestamp) -> Result<(), TestCaseError> {
        while self.world.now < until {
            let next = self.world.run(usize::MAX).unwrap();
            self.spare = self.world.settings.server.renew_before / 2;
            prop_assert!(next > self.world.now, "it would look again at once");
            self.check()?;
            // Hours in which nothing happens are looked at at their ends.
            let busy = self.world.now + SignedDuration::from_mins(21);
            self.pass(next.min(until).min(busy))?;
            self.world.now = next.min(until);
            self.check()?;
        }
        Ok(())
    }

    fn happen(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match *event {
            Event::Death { writes, part } => {
                self.world.run(writes);
                self.check()?;
                let away = self.spare / (part + 1);
                self.spare -= away;
                self.pass(self.world.now + away)
            }
            Event::Peace { minutes } => {
                self.peace(self.world.now + SignedDuration::from_mins(minutes))
            }
            Event::LostCa => {
                self.world.secrets.remove(CA);
                Ok(())
            }
            Event::LostLeaf { which } => {
                // One that is lost while no CA is known to everyone has to be signed all the same,
                // so this happens when nothing else does.
                self.peace(self.world.now + SignedDuration::from_mins(30))?;
                self.world.secrets.remove(SECRETS[which]);
                self.peace(self.world.now + SignedDuration::from_mins(1))
            }
            Event::Durations { ca, server } => {
                self.world.settings = Settings {
                    ca: Lifetime {
                        duration: hours(ca),
                        renew_before: hours(ca) / 5,
                    },
                    server: Lifetime {
                        duration: hours(server),
                        renew_before: hours(server) / 5,
                    },
                };
                self.spare = self.spare.min(self.world.settings.server.renew_before / 2);
                Ok(())
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_client_trusts_every_server_whatever_happens(
        events in prop::collection::vec(event(), 1..30),
    ) {
        let mut world = World::new(DEFAULT);
        world.run(usize::MAX).unwrap();
        let begun = world.now;
        let spare = world.settings.server.renew_before / 2;
        let mut run = Run { world, spare, begun };
        run.pass(begun + DELAY)?;
        for event in &events {
            run.happen(event)?;
            run.check()?;
        }
        let end = run.world.now + hours(400);
        run.peace(end)?;
        // Two rotations of everything in three weeks, at the worst.
        prop_assert!(run.world.writes < 200 * (events.len() + 4));
    }

    #[test]
    fn durations_survive_being_written(nanos in any::<i64>()) {
        let duration = SignedDuration::from_nanos(nanos);
        let text = duration::format(duration);
        prop_assert_eq!(duration::parse(&text), Some(duration));
    }

    #[test]
    fn any_text_is_a_duration_or_none(text in "[-+]?[0-9.hmsnuµ]{0,12}") {
        let _ = duration::parse(&text);
    }
}
