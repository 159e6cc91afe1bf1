//! Shell on the serial console of a simulated guest. Pure.

const HELP: &str = "help, hostname, ip, whoami, exit, reboot, poweroff";

/// What a user asks the guest to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    Off,
    Reboot,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Login,
    /// With the user.
    Password(String),
    Prompt(String),
}

#[derive(Debug)]
pub(crate) struct Shell {
    hostname: String,
    addresses: Vec<String>,
    state: State,
    line: String,
}

impl Shell {
    pub(crate) fn new(hostname: &str, addresses: Vec<String>) -> Self {
        Self {
            hostname: hostname.to_owned(),
            addresses,
            state: State::Login,
            line: String::new(),
        }
    }

    /// What the console shows at first.
    pub(crate) fn greeting(&self) -> String {
        format!(
            "\r\nSandbox guest {} ttyS0\r\n\r\n{}",
            self.hostname,
            self.prompt()
        )
    }

    fn prompt(&self) -> String {
        match &self.state {
            State::Login => format!("{} login: ", self.hostname),
            State::Password(_) => "Password: ".to_owned(),
            State::Prompt(user) => format!("{user}@{}:~$ ", self.hostname),
        }
    }

    /// What the console shows for some input, and what the guest is asked to do.
    pub(crate) fn input(&mut self, bytes: &[u8]) -> (String, Option<Power>) {
        let mut shown = String::new();
        for byte in bytes {
            match byte {
                b'\r' => {
                    shown.push_str("\r\n");
                    let line = std::mem::take(&mut self.line);
                    let power = self.enter(line.trim(), &mut shown);
                    if power.is_some() {
                        return (shown, power);
                    }
                    shown.push_str(&self.prompt());
                }
                // Backspace, as terminals send it.
                0x08 | 0x7f => {
                    let removed = self.line.pop();
                    if removed.is_some() && !self.is_hidden() {
                        shown.push_str("\x08 \x08");
                    }
                }
                // Ctrl-C and Ctrl-D.
                0x03 | 0x04 => {
                    self.line.clear();
                    if *byte == 0x04 {
                        self.state = State::Login;
                    }
                    shown.push_str("\r\n");
                    shown.push_str(&self.prompt());
                }
                0x20..0x7f => {
                    self.line.push(char::from(*byte));
                    if !self.is_hidden() {
                        shown.push(char::from(*byte));
                    }
                }
                _ => {}
            }
        }
        (shown, None)
    }

    fn is_hidden(&self) -> bool {
        matches!(self.state, State::Password(_))
    }

    fn enter(&mut self, line: &str, shown: &mut String) -> Option<Power> {
        let user = match &self.state {
            State::Login if line.is_empty() => return None,
            State::Login => {
                self.state = State::Password(line.to_owned());
                return None;
            }
            // Any password will do: there is nothing to protect.
            State::Password(user) => {
                self.state = State::Prompt(user.clone());
                return None;
            }
            State::Prompt(user) => user.clone(),
        };
        let command = line.split_whitespace().next().unwrap_or_default();
        let answer = match command {
            "" => return None,
            "help" => HELP.to_owned(),
            "hostname" => self.hostname.clone(),
            "whoami" => user,
            "ip" => self.addresses.join("\r\n"),
            "exit" | "logout" => {
                self.state = State::Login;
                return None;
            }
            "poweroff" => {
                shown.push_str("The system will power off now!\r\n");
                return Some(Power::Off);
            }
            "reboot" => {
                shown.push_str("The system will reboot now!\r\n");
                self.state = State::Login;
                return Some(Power::Reboot);
            }
            other => format!("{other}: command not found"),
        };
        shown.push_str(&answer);
        shown.push_str("\r\n");
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_logs_in_and_runs_commands() {
        let mut shell = Shell::new("web", vec!["10.0.0.1".to_owned()]);
        assert!(shell.greeting().ends_with("web login: "));
        assert_eq!(
            shell.input(b"root\r"),
            ("root\r\nPassword: ".to_owned(), None)
        );
        let (shown, _) = shell.input(b"secret\r");
        assert_eq!(shown, "\r\nroot@web:~$ ");
        let (shown, _) = shell.input(b"hostnamex\x7f\r");
        assert_eq!(shown, "hostnamex\x08 \x08\r\nweb\r\nroot@web:~$ ");
        let (shown, _) = shell.input(b"ip a\r");
        assert!(shown.contains("\r\n10.0.0.1\r\n"), "{shown}");
        let (shown, _) = shell.input(b"vi\r");
        assert!(shown.contains("vi: command not found"), "{shown}");
        assert_eq!(shell.input(b"poweroff\r").1, Some(Power::Off));
        assert_eq!(shell.input(b"reboot\r").1, Some(Power::Reboot));
        assert!(shell.greeting().ends_with("web login: "));
    }
}
