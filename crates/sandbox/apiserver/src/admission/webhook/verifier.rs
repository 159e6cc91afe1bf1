//! TLS certificate verification for webhooks.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};

/// Trusts certificates signed by the CA bundle and the bundle's certificates themselves:
/// kube-apiserver accepts a self-signed serving certificate that is its own CA.
#[derive(Debug)]
pub(super) struct Verifier {
    inner: Arc<WebPkiServerVerifier>,
    bundle: Vec<CertificateDer<'static>>,
}

impl Verifier {
    pub(super) fn new(bundle: &[u8], provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let bundle: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(bundle)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("unable to load root certificates: {error}"))?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(bundle.iter().cloned());
        if roots.is_empty() {
            return Err(UNKNOWN.to_owned());
        }
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| format!("unable to load root certificates: {error}"))?;
        Ok(Self { inner, bundle })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // WebPKI reports this error after it has checked the validity period.
            Err(Error::InvalidCertificate(CertificateError::Other(other)))
                if other.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
                    && self.bundle.iter().any(|trusted| trusted == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Verifies without a connection what a TLS handshake would verify: the CA bundle is not empty and,
/// if the serving certificate is known, it is valid now and signed by the bundle. All are PEM.
pub fn check_certificate(
    bundle: &[u8],
    certificate: Option<&[u8]>,
    host: &str,
    now: Timestamp,
) -> Result<(), String> {
    let verifier = Verifier::new(bundle, Arc::new(ring::default_provider()))?;
    let Some(certificate) = certificate else {
        return Ok(());
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("tls: {error}"))?;
    let (leaf, intermediates) = chain
        .split_first()
        .ok_or_else(|| "remote error: tls: internal error".to_owned())?;
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let seconds = u64::try_from(now.as_second()).unwrap_or_default();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    verifier
        .verify_server_cert(leaf, intermediates, &name, &[], now)
        .map(drop)
        .map_err(|error| describe(&error))
}

const UNKNOWN: &str =
    "tls: failed to verify certificate: x509: certificate signed by unknown authority";

/// Handshake error as kube-apiserver words it, where known.
pub(super) fn describe(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(problem) => match problem {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => UNKNOWN.to_owned(),
            CertificateError::NotValidForNameContext {
                expected,
                presented,
            } => format!(
                "tls: failed to verify certificate: x509: certificate is valid for {}, not {}",
                presented.join(", "),
                expected.to_str()
            ),
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => {
                format!(
                    "tls: failed to verify certificate: x509: certificate has expired or is not yet \
                     valid: {problem}"
                )
            }
            other => format!("tls: failed to verify certificate: x509: {other}"),
        },
        other => format!("tls: {other}"),
    }
}
