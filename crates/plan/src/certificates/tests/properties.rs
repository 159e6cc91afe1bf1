//! Property: every client always trusts every server.

use proptest::prelude::*;

use super::{world::*, *};

/// Something that happens to an installation.
#[derive(Clone, Debug)]
enum Event {
    /// The operator crashes after so many writes, and returns after part of the time that it may be
    /// absent.
    Death { writes: usize, part: i32 },
    /// The operator runs for so many minutes.
    Peace { minutes: i64 },
    /// Someone deletes the Secret of a CA.
    LostCa,
    /// Someone deletes the Secret of a certificate.
    LostLeaf { which: usize },
    /// Someone changes the durations.
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

/// Maximum delay of readers.
const DELAY: SignedDuration = SignedDuration::from_mins(10);

struct Run {
    world: World,
    /// How long the operator may be absent before a certificate expires.
    spare: SignedDuration,
    /// Start of the history that readers may have.
    begun: Timestamp,
}

impl Run {
    /// Advances time without the operator.
    fn advance_time(&mut self, until: Timestamp) -> Result<(), TestCaseError> {
        // These include every time at which a reader may last have read an old version.
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

    fn run_operator(&mut self, until: Timestamp) -> Result<(), TestCaseError> {
        while self.world.now < until {
            let next = self.world.run(usize::MAX).unwrap();
            self.spare = self.world.settings.server.renew_before / 2;
            prop_assert!(next > self.world.now, "it would plan again at once");
            self.check()?;
            // Hours without events are checked at their ends.
            let busy = self.world.now + SignedDuration::from_mins(21);
            self.advance_time(next.min(until).min(busy))?;
            self.world.now = next.min(until);
            self.check()?;
        }
        Ok(())
    }

    fn apply_event(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match *event {
            Event::Death { writes, part } => {
                self.world.run(writes);
                self.check()?;
                let away = self.spare / (part + 1);
                self.spare -= away;
                self.advance_time(self.world.now + away)
            }
            Event::Peace { minutes } => {
                self.run_operator(self.world.now + SignedDuration::from_mins(minutes))
            }
            Event::LostCa => {
                self.world.secrets.remove(CA);
                Ok(())
            }
            Event::LostLeaf { which } => {
                // A certificate that is lost while no CA is trusted by all clients must be issued
                // nonetheless, so this event happens alone.
                self.run_operator(self.world.now + SignedDuration::from_mins(30))?;
                self.world.secrets.remove(SECRETS[which]);
                self.run_operator(self.world.now + SignedDuration::from_mins(1))
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
    fn every_client_always_trusts_every_server(
        events in prop::collection::vec(event(), 1..30),
    ) {
        let mut world = World::new(DEFAULT);
        world.run(usize::MAX).unwrap();
        let begun = world.now;
        let spare = world.settings.server.renew_before / 2;
        let mut run = Run { world, spare, begun };
        run.advance_time(begun + DELAY)?;
        for event in &events {
            run.apply_event(event)?;
            run.check()?;
        }
        let end = run.world.now + hours(400);
        run.run_operator(end)?;
        // At most two rotations of everything in three weeks.
        prop_assert!(run.world.writes < 200 * (events.len() + 4));
    }

    #[test]
    fn durations_round_trip(nanos in any::<i64>()) {
        let duration = SignedDuration::from_nanos(nanos);
        let text = duration::format(duration);
        prop_assert_eq!(duration::parse(&text), Some(duration));
    }

    #[test]
    fn any_text_is_a_duration_or_none(text in "[-+]?[0-9.hmsnuµ]{0,12}") {
        let _ = duration::parse(&text);
    }
}
