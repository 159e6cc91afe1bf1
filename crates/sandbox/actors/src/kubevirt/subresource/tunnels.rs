//! `portforward` and `console` of virt-api: what of the guest is behind a tunnel.

use serde_json::Value;

use super::SubresourceResponse;
use crate::object::{is_true, list, text};

/// A service of the simulated guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestService {
    /// Port 7 returns what it receives.
    Echo,
    /// Port 22 sends the banner of an SSH server, and closes the connection after the client's.
    Ssh,
}

const RESOURCE: &str = "virtualmachineinstance";

/// Whether an instance has a serial console to connect to.
///
/// # Errors
/// As virt-api v1.9 answers: without an instance, a serial port, or a running guest.
pub fn check_console(name: &str, vmi: Option<&Value>) -> Result<(), SubresourceResponse> {
    let vmi = vmi.ok_or_else(|| SubresourceResponse::not_found(RESOURCE, name))?;
    let attached = vmi.pointer("/spec/domain/devices/autoattachSerialConsole");
    if attached == Some(&Value::Bool(false)) {
        let why = "No serial consoles are present.";
        return Err(SubresourceResponse::bad_request(why));
    }
    match text(vmi, "/status/phase") {
        "Running" => Ok(()),
        "Failed" => Err(SubresourceResponse::conflict(
            RESOURCE,
            name,
            "VMI is in failed status",
        )),
        _ => Err(SubresourceResponse::bad_request("VMI is not running")),
    }
}

/// The service behind `portforward/PORT[/PROTOCOL]` of an instance.
///
/// # Errors
/// As virt-api v1.9 answers: without an instance, a network interface or a listener.
pub fn guest_service(
    name: &str,
    vmi: Option<&Value>,
    port: &str,
) -> Result<GuestService, SubresourceResponse> {
    let vmi = vmi.ok_or_else(|| SubresourceResponse::not_found(RESOURCE, name))?;
    if is_true(vmi, "Paused") {
        return Err(SubresourceResponse::conflict(
            RESOURCE,
            name,
            "VMI is paused",
        ));
    }
    let Some(interface) = list(vmi, "/status/interfaces").first() else {
        let why = "no network interfaces are present";
        return Err(SubresourceResponse::bad_request(why));
    };
    let (port, protocol) = port.split_once('/').unwrap_or((port, "tcp"));
    match (port, protocol) {
        ("", _) => Err(SubresourceResponse::bad_request("port must not be empty")),
        ("7", "tcp") => Ok(GuestService::Echo),
        ("22", "tcp") => Ok(GuestService::Ssh),
        _ => {
            let address = text(interface, "/ipAddress");
            Err(SubresourceResponse::internal(&format!(
                "dialing VM: dial {protocol} {address}:{port}: connect: connection refused"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_console_needs_a_running_guest() {
        let code = |vmi: &Value| check_console("web", Some(vmi)).unwrap_err().code;
        assert_eq!(check_console("web", None).unwrap_err().code, 404);
        assert_eq!(code(&json!({ "status": { "phase": "Scheduling" } })), 400);
        assert_eq!(code(&json!({ "status": { "phase": "Failed" } })), 409);
        let running = json!({ "status": { "phase": "Running" } });
        assert_eq!(check_console("web", Some(&running)), Ok(()));
        let without = json!({ "domain": { "devices": { "autoattachSerialConsole": false } } });
        assert_eq!(
            code(&json!({ "spec": without, "status": { "phase": "Running" } })),
            400
        );
    }

    #[test]
    fn ports_answer_as_virt_api_does() {
        let vmi = json!({ "status": { "interfaces": [{ "ipAddress": "10.0.0.1" }] } });
        assert_eq!(
            guest_service("web", Some(&vmi), "22/tcp"),
            Ok(GuestService::Ssh)
        );
        assert_eq!(
            guest_service("web", Some(&vmi), "7"),
            Ok(GuestService::Echo)
        );
        let code =
            |vmi: Option<&Value>, port: &str| guest_service("web", vmi, port).unwrap_err().code;
        assert_eq!(code(None, "22"), 404);
        assert_eq!(code(Some(&vmi), "80/tcp"), 500);
        assert_eq!(code(Some(&vmi), "22/udp"), 500);
        assert_eq!(code(Some(&json!({})), "22"), 400);
        let paused =
            json!({ "status": { "conditions": [{ "type": "Paused", "status": "True" }] } });
        assert_eq!(code(Some(&paused), "22"), 409);
    }
}
