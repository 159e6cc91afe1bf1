//! Settings of the webhook.

use std::str::FromStr;

use plan::webhook_certificate::Names;
use runtime::probes::BindAddress;
use tracing::info;

use crate::{
    cmd::settings::{Reader, is_label, parsed},
    webhook_certificate::Certificates,
};

#[derive(Debug, Default, clap::Args)]
#[expect(clippy::struct_field_names, reason = "the flags have these names")]
pub(super) struct WebhookFlags {
    /// Address of the admission webhook, such as :9443; 0 disables it [default: 0]
    #[arg(long, env = "WEBHOOK_BIND_ADDRESS", value_name = "ADDR")]
    webhook_bind_address: Option<String>,

    /// Issuer of the webhook's certificate: managed (this operator) or external (such as cert-manager)
    /// [default: managed]
    #[arg(long, env = "WEBHOOK_CERTIFICATES", value_name = "managed|external")]
    webhook_certificates: Option<String>,

    /// Service of the webhook [default: kubevirt-operator-webhook]
    #[arg(long, env = "WEBHOOK_SERVICE", value_name = "NAME")]
    webhook_service: Option<String>,

    /// ValidatingWebhookConfiguration to set the CA bundle of [default: kubevirt-operator]
    #[arg(long, env = "WEBHOOK_CONFIGURATION", value_name = "NAME")]
    webhook_configuration: Option<String>,

    /// Secret with the webhook's certificate [default: kubevirt-operator-webhook-certs]
    #[arg(long, env = "WEBHOOK_SECRET", value_name = "NAME")]
    webhook_secret: Option<String>,
}

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

impl WebhookFlags {
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
    /// Names of the webhook's objects.
    pub(crate) fn names(&self, namespace: &str) -> Names {
        Names {
            namespace: namespace.to_owned(),
            service: self.service.clone(),
            configuration: self.configuration.clone(),
            secret: self.secret.clone(),
        }
    }

    /// Logs the settings, if the webhook is enabled.
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
    // RFC 1035: the first character is a letter.
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
