//! Access to the guest of a Machine.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Secret whose values are public SSH keys.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SshKeySecret {
    /// Name of the Secret in the Machine's namespace. KubeVirt makes a volume of this name, so it has at most
    /// 51 characters and no dots.
    #[schemars(length(min = 1, max = 51))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_LABEL).message(rules::DNS_LABEL))]
    pub name: String,
    /// Users of the guest that get the keys through the guest agent, which keeps them in sync while the guest
    /// runs. If not set, cloud-init gives the keys to its default user when the guest starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 32)))]
    #[x_kube(validation = Rule::new("self.all(user, user.matches('^[a-z_][-a-z0-9_]*$'))").message("must be names of users: lower case letters, digits, '-' and '_', beginning with a letter or '_'"))]
    pub users: Option<Vec<String>>,
}
