//! Settings of the webhook.

use std::str::FromStr;

use plan::webhook_certificate::Names;
use runtime::probes::BindAddress;
use tracing::info;

use crate::{
    cmd::settings::{Reader, is_label, parsed},
    webhook_certificate::Certificates,
};

/// What flags and environment say.
#[derive(Debug, Default, clap::Args)]
#[expect(clippy::struct_field_names, reason = "the flags have these names")]
pub(super) struct GivenWebhook {
    /// Where the admission webhook is served, such as :9443; 0 turns it off [default: 0]
    #[arg(
        long,
        env = "WEBHOOK_BIND_ADDRESS",
        hide_env_values = true,
        value_name = "ADDR"
    )]
    webhook_bind_address: Option<String>,

    /// Who makes and renews its certificate: managed, this operator; external, somebody else, such as
    /// cert-manager [default: managed]
    #[arg(
        long,
        env = "WEBHOOK_CERTIFICATES",
        hide_env_values = true,
        value_name = "managed|external"
    )]
    webhook_certificates: Option<String>,

    /// Service by which API servers call it [default: kubevirt-operator-webhook]
    #[arg(
        long,
        env = "WEBHOOK_SERVICE",
        hide_env_values = true,
        value_name = "NAME"
    )]
    webhook_service: Option<String>,

    /// ValidatingWebhookConfiguration whose CA bundle is kept [default: kubevirt-operator]
    #[arg(
        long,
        env = "WEBHOOK_CONFIGURATION",
        hide_env_values = true,
        value_name = "NAME"
    )]
    webhook_configuration: Option<String>,

    /// Secret with its certificate [default: kubevirt-operator-webhook-certs]
    #[arg(
        long,
        env = "WEBHOOK_SECRET",
        hide_env_values = true,
        value_name = "NAME"
    )]
    webhook_secret: Option<String>,
}

/// What the settings mean.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) address: BindAddress,
    pub(crate) certificates: Certificates,
    service: String,
    configuration: String,
    secret: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            address: BindAddress::Off,
            certificates: Certificates::Managed,
            service: "kubevirt-operator-webhook".to_owned(),
            configuration: "kubevirt-operator".to_owned(),
            secret: "kubevirt-operator-webhook-certs".to_owned(),
        }
    }
}

impl GivenWebhook {
    pub(super) fn resolve(self, reader: &mut Reader) -> Settings {
        let Self {
            webhook_bind_address,
            webhook_certificates,
            webhook_service,
            webhook_configuration,
            webhook_secret,
        } = self;
        let default = Settings::default();
        Settings {
            address: reader
                .read("WEBHOOK_BIND_ADDRESS", webhook_bind_address, parsed)
                .unwrap_or(default.address),
            certificates: reader
                .read("WEBHOOK_CERTIFICATES", webhook_certificates, parsed)
                .unwrap_or(default.certificates),
            service: reader
                .read("WEBHOOK_SERVICE", webhook_service, service_name)
                .unwrap_or(default.service),
            configuration: reader
                .read("WEBHOOK_CONFIGURATION", webhook_configuration, object_name)
                .unwrap_or(default.configuration),
            secret: reader
                .read("WEBHOOK_SECRET", webhook_secret, object_name)
                .unwrap_or(default.secret),
        }
    }
}

impl Settings {
    /// What everything is called, of an operator in that namespace.
    pub(crate) fn names(&self, namespace: &str) -> Names {
        Names {
            namespace: namespace.to_owned(),
            service: self.service.clone(),
            configuration: self.configuration.clone(),
            secret: self.secret.clone(),
        }
    }

    /// Logs what the webhook is served with, if it is.
    pub(super) fn log(&self) {
        let Self {
            address,
            certificates,
            service,
            configuration,
            secret,
        } = self;
        if *address != BindAddress::Off {
            info!(
                webhook_bind_address = %address,
                webhook_certificates = ?certificates,
                webhook_service = service,
                webhook_configuration = configuration,
                webhook_secret = secret,
                "Starting the webhook"
            );
        }
    }
}

impl FromStr for Certificates {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "managed" => Ok(Self::Managed),
            "external" => Ok(Self::External),
            _ => Err("must be one of managed, external"),
        }
    }
}

fn service_name(text: &str) -> Result<String, String> {
    // As namespaces are, but that the first is a letter.
    if is_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase()) {
        Ok(text.to_owned())
    } else {
        Err("must be the name of a Service: \
             at most 63 lower-case letters, digits and '-', the first a letter and the last no '-'"
            .to_owned())
    }
}

fn object_name(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.split('.').all(is_label) {
        Ok(text.to_owned())
    } else {
        Err("must be the name of an object: \
             at most 253 lower-case letters, digits, '-' and '.', the first and last a letter or digit"
            .to_owned())
    }
}
