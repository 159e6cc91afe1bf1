//! Command `diff`: what the operator would change for Machines as they are.

use clap::Args;

use crate::{
    failure::{ExitCode, Failure},
    select::Selection,
    session::Session,
};

/// Show what the operator would change for Machines as they are
///
/// Plans as the operator does, without writing: objects to create (+), change (~) and delete (-), also
/// drift that others caused. It needs the rights of `plan`: dry runs of patches.
///
/// Exit code: 0 nothing to change, 2 changes, 1 an error.
#[derive(Args, Debug)]
pub struct Diff {
    #[command(flatten)]
    selection: Selection,
}

impl Diff {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        let machines = self.selection.machines(session).await?;
        if machines.is_empty() {
            session.note("no Machines found");
            return Ok(ExitCode::Done);
        }
        let preview = (session.previewer)(session.client.clone(), machines);
        let changes = preview.await.map_err(Failure::Other)?;
        if changes.errors.is_empty() || changes.has_changes {
            session.out.write_all(changes.text.as_bytes())?;
            session.out.flush()?;
        }
        for note in &changes.notes {
            session.note(note);
        }
        for error in &changes.errors {
            session.error(error);
        }
        Ok(match (changes.errors.is_empty(), changes.has_changes) {
            (false, _) => ExitCode::Failed,
            (true, true) => ExitCode::Found,
            (true, false) => ExitCode::Done,
        })
    }
}
