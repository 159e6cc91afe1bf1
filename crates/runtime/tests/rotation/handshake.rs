//! TLS handshake in memory, at a given time.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use runtime::certificates::parse_bundle;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    server::WebPkiClientVerifier,
    time_provider::TimeProvider,
};

/// Certificate and trust bundle of one side.
pub struct Side<'a> {
    pub leaf: &'a (String, String),
    pub bundle: &'a str,
}

#[derive(Debug)]
struct Fixed(UnixTime);

impl TimeProvider for Fixed {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.0)
    }
}

/// Whether a client without a certificate trusts the server of that name.
pub fn trusts(
    leaf: &(String, String),
    bundle: &str,
    name: &str,
    now: Timestamp,
) -> Result<(), String> {
    let (provider, clock) = providers(now);
    let side = Side { leaf, bundle };
    let (chain, key) = self::leaf(&side);
    let server = ServerConfig::builder_with_details(Arc::clone(&provider), Arc::clone(&clock))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let client = ClientConfig::builder_with_details(provider, clock)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(bundle, now)?)
        .with_no_client_auth();
    handshake(Arc::new(server), Arc::new(client), name)
}

/// Whether client and server trust each other.
pub fn mutual(
    server: &Side<'_>,
    client: &Side<'_>,
    name: &str,
    now: Timestamp,
) -> Result<(), String> {
    let (provider, clock) = providers(now);
    let server = server_config(server, now, &provider, &clock)?;
    let client = client_config(client, now, &provider, &clock)?;
    handshake(server, client, name)
}

fn providers(now: Timestamp) -> (Arc<CryptoProvider>, Arc<dyn TimeProvider>) {
    let seconds = u64::try_from(now.as_second()).unwrap();
    let clock = Fixed(UnixTime::since_unix_epoch(Duration::from_secs(seconds)));
    (Arc::new(ring::default_provider()), Arc::new(clock))
}

fn handshake(
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    name: &str,
) -> Result<(), String> {
    let mut server = ServerConnection::new(server).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(client, name).unwrap();

    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut &*wire).unwrap();
        server
            .process_new_packets()
            .map_err(|why| format!("the server says {why:?}"))?;
        let mut wire = Vec::new();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut &*wire).unwrap();
        client
            .process_new_packets()
            .map_err(|why| format!("the client says {why:?}"))?;
    }
    Ok(())
}

fn server_config(
    side: &Side<'_>,
    now: Timestamp,
    provider: &Arc<CryptoProvider>,
    clock: &Arc<dyn TimeProvider>,
) -> Result<Arc<ServerConfig>, String> {
    let roots = Arc::new(roots(side.bundle, now)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    let (chain, key) = leaf(side);
    let config = ServerConfig::builder_with_details(Arc::clone(provider), Arc::clone(clock))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(chain, key)
        .unwrap();
    Ok(Arc::new(config))
}

fn client_config(
    side: &Side<'_>,
    now: Timestamp,
    provider: &Arc<CryptoProvider>,
    clock: &Arc<dyn TimeProvider>,
) -> Result<Arc<ClientConfig>, String> {
    let (chain, key) = leaf(side);
    let config = ClientConfig::builder_with_details(Arc::clone(provider), Arc::clone(clock))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(side.bundle, now)?)
        .with_client_auth_cert(chain, key)
        .unwrap();
    Ok(Arc::new(config))
}

fn leaf(side: &Side<'_>) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let (certificate, key) = side.leaf;
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    (vec![certificate], key)
}

/// KubeVirt rejects an expired CA; rustls would accept it.
fn roots(bundle: &str, now: Timestamp) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for known in parse_bundle(bundle) {
        if known.not_before <= now && now < known.not_after {
            let der = CertificateDer::from_pem_slice(known.certificate.as_bytes()).unwrap();
            roots.add(der).unwrap();
        }
    }
    if roots.is_empty() {
        return Err("every CA of a bundle has Expired".to_owned());
    }
    Ok(roots)
}
