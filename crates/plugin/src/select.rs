//! Selection of Machines by name, label or namespace, as kubectl's flags do.

use clap::Args;
use serde_json::Value;

use crate::{
    failure::Failure,
    kinds::MACHINE,
    read::{self, Scope},
    session::Session,
};

/// Machines of a command that acts on several.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Names of Machines
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Label selector, such as app=web
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    pub(crate) selector: Option<String>,

    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "names")]
    pub(crate) all_namespaces: bool,
}

impl Selection {
    pub(crate) fn scope<'a>(&'a self, session: &'a Session) -> Scope<'a> {
        Scope {
            namespace: (!self.all_namespaces).then_some(session.namespace.as_str()),
            labels: self.selector.as_deref(),
        }
    }

    /// The Machines, in order of namespace and name; those that are named, in that order.
    pub(crate) async fn machines(&self, session: &Session) -> Result<Vec<Value>, Failure> {
        if self.names.is_empty() {
            return read::list(&session.client, MACHINE, self.scope(session)).await;
        }
        let mut machines = Vec::new();
        for name in &self.names {
            machines.push(read::machine(&session.client, &session.namespace, name).await?);
        }
        Ok(machines)
    }

    /// The Machines of a command that changes them: never all of a namespace by accident.
    pub(crate) async fn machines_to_change(
        &self,
        session: &Session,
        all: bool,
    ) -> Result<Vec<Value>, Failure> {
        if self.names.is_empty() && self.selector.is_none() && !all {
            return Err(Failure::Other(
                "name the Machines, or select them with -l or --all".to_owned(),
            ));
        }
        self.machines(session).await
    }
}
