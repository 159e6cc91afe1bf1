//! Questions to the running operator: the loop alone has the caches, and answers between two writes.

use std::time::Duration;

use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::machine::caches::Caches;

/// How long a question may wait for the loop. The API server waits 3 s for all of an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many questions wait at a time; more are not asked.
const WAITING: usize = 256;

type Question = Box<dyn FnOnce(&Caches) + Send>;

/// The questions that are asked of an operator.
pub struct Questions {
    asker: Asker,
    asked: mpsc::Receiver<Question>,
}

impl Default for Questions {
    fn default() -> Self {
        let (sender, asked) = mpsc::channel(WAITING);
        Self {
            asker: Asker(sender),
            asked,
        }
    }
}

impl Questions {
    /// What asks.
    pub(super) fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// A question that waits already.
    pub(in crate::machine) fn waiting(&mut self) -> Option<Question> {
        self.asked.try_recv().ok()
    }

    /// The next question; there is always one to come.
    pub(in crate::machine) async fn next(&mut self) -> Option<Question> {
        self.asked.recv().await
    }
}

/// Asks a running operator.
#[derive(Clone)]
pub(super) struct Asker(mpsc::Sender<Question>);

impl Asker {
    /// What the caches say; nothing if no operator runs, or it is too busy to tell.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Caches) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        let question: Question = Box::new(move |caches| {
            // Whoever has gone away does not want to know any more.
            let _ = sender.send(question(caches));
        });
        self.0.try_send(question).ok()?;
        timeout(PATIENCE, answer).await.ok()?.ok()
    }
}
