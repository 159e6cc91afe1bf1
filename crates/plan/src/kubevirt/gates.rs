//! Feature gates of a KubeVirt resource in the release that it requests.
//!
//! The state of a gate depends on the release, so the requested release decides, not the operator's
//! version. Releases before the first known one count as that one, later ones as the last.

use api::kubevirt::install::KubeVirt;
use serde_json::Value;

/// Maturity of a feature in a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Off by default.
    Alpha,
    /// On by default since 1.9; before, off by default.
    Beta,
    /// Always on.
    Ga,
    /// Off by default, to be removed.
    Deprecated,
    /// Removed.
    Discontinued,
}

/// Minor version of the first column of [`TABLE`].
const FIRST: u64 = 5;

/// First minor version in which Beta features are on by default.
const BETA_IS_ON: u64 = 9;

/// States of all gates in 1.5, 1.6, 1.7, 1.8 and 1.9.
const TABLE: [(&str, [u8; 5]); 84] = [
    ("AlignCPUs", *b"AAAAA"),
    ("AutoResourceLimitsGate", *b"GGGGG"),
    ("BochsDisplayForEFIGuests", *b"GGGGG"),
    ("CPUManager", *b"AAAAA"),
    ("CPUNodeDiscovery", *b"GGGGG"),
    ("ClusterProfiler", *b"AGGGG"),
    ("CommonInstancetypesDeploymentGate", *b"GGGGG"),
    ("ConfigurableHypervisor", *b"---AA"),
    ("ContainerPathVolumes", *b"---AA"),
    ("CrossArchitectureVirtualization", *b"----A"),
    ("DecentralizedLiveMigration", *b"-AAAA"),
    ("DeclarativeHotplugVolumes", *b"-AAAB"),
    ("DisableCustomSELinuxPolicy", *b"GGGGG"),
    ("DisableMDEVConfiguration", *b"AAADD"),
    ("DockerSELinuxMCSWorkaround", *b"DDDDD"),
    ("DownwardMetrics", *b"AAAAA"),
    ("DynamicPodInterfaceNaming", *b"GGGGG"),
    ("EnableVirtioFsConfigVolumes", *b"AAAGG"),
    ("EnableVirtioFsStorageVolumes", *b"AAAAA"),
    ("ExpandDisks", *b"AAAAG"),
    ("ExperimentalIgnitionSupport", *b"AAAAA"),
    ("ExperimentalVirtiofsSupport", *b"DDDXX"),
    ("ExternalNetResourceInjection", *b"---BB"),
    ("FirmwareAutoSelection", *b"----A"),
    ("GPU", *b"GGGGG"),
    ("GPUsWithDRA", *b"-AAAB"),
    ("GraceIOVirtualization", *b"----A"),
    ("HostDevices", *b"AAAAA"),
    ("HostDevicesWithDRA", *b"-AAAB"),
    ("HostDisk", *b"AAAAA"),
    ("HotplugNICs", *b"GGGGG"),
    ("HotplugVolumes", *b"AAAAD"),
    ("HypervStrictCheck", *b"AAAAA"),
    ("IOMMUFD", *b"----A"),
    ("ImageVolume", *b"-ABBB"),
    ("IncrementalBackup", *b"--AAA"),
    ("InstancetypeReferencePolicy", *b"BGGGG"),
    ("KubevirtSeccompProfile", *b"AABBB"),
    ("LibvirtHooksServerAndClient", *b"---AB"),
    ("LiveMigration", *b"GGGGG"),
    ("LiveUpdateNADRef", *b"---BG"),
    ("Macvtap", *b"XXXXX"),
    ("MigrationPriorityQueue", *b"--ABG"),
    ("MigrationStallDetection", *b"----A"),
    ("MultiArchitecture", *b"AAADD"),
    ("NUMA", *b"GGGGG"),
    ("NetworkBindingPlugins", *b"GGGGG"),
    ("NetworkDevicesWithDRA", *b"----A"),
    ("NodeRestriction", *b"ABBBB"),
    ("NonRoot", *b"GGGGG"),
    ("OCIExport", *b"----A"),
    ("ObjectGraph", *b"----A"),
    ("OptOutRoleAggregation", *b"---AB"),
    ("PCINUMAAwareTopology", *b"---AA"),
    ("PSA", *b"GGGGG"),
    ("PanicDevices", *b"-ABBG"),
    ("Passt", *b"XXXXX"),
    ("PasstBinding", *b"---BB"),
    ("PasstIPStackMigration", *b"-AAXX"),
    ("PersistentReservation", *b"AAAAG"),
    ("Plugins", *b"----A"),
    ("PodSecondaryInterfaceNamingUpgrade", *b"---BB"),
    ("PortRangesSpec", *b"----A"),
    ("RebootPolicy", *b"---AB"),
    ("ReservedOverheadMemlock", *b"---AA"),
    ("Root", *b"AAAAA"),
    ("SRIOVLiveMigration", *b"GGGGG"),
    ("SecureExecution", *b"--BBG"),
    ("Sidecar", *b"AAAAA"),
    ("Snapshot", *b"ABBBB"),
    ("Template", *b"---AB"),
    ("UtilityVolumes", *b"---AA"),
    ("VGPULiveMigration", *b"----A"),
    ("VMExport", *b"ABBBG"),
    ("VMLiveUpdateFeatures", *b"GGGGG"),
    ("VMPersistentState", *b"AGGGG"),
    ("VMStatsCollector", *b"----A"),
    ("VSOCK", *b"AAAAA"),
    ("VideoConfig", *b"-ABBG"),
    ("VmiMemoryOverheadReport", *b"---AB"),
    ("VolumeMigration", *b"GGGGG"),
    ("VolumesUpdateStrategy", *b"GGGGG"),
    ("WorkloadEncryptionSEV", *b"AAAAB"),
    ("WorkloadEncryptionTDX", *b"--AAA"),
];

/// Feature gates of a KubeVirt resource in one release.
#[derive(Clone, Copy, Debug)]
pub struct Gates<'a> {
    minor: u64,
    developer: Option<&'a Value>,
}

impl<'a> Gates<'a> {
    /// The gates in that release. A version that is not a release, such as `latest`, counts as the last
    /// known one.
    pub fn of(kubevirt: &'a KubeVirt, version: &str) -> Self {
        let configuration = kubevirt.spec.configuration.as_ref();
        Self {
            minor: minor(version),
            developer: configuration.and_then(|all| all.get("developerConfiguration")),
        }
    }

    /// Whether the version is later than all known releases, or not a release.
    pub fn is_later(&self) -> bool {
        let last = TABLE.first().map_or(0, |(_, states)| states.len());
        self.minor >= FIRST.saturating_add(last as u64)
    }

    /// Whether a feature is enabled.
    pub fn on(&self, gate: &str) -> bool {
        match self.state(gate) {
            None | Some(State::Discontinued) => false,
            Some(State::Ga) => true,
            Some(_) if self.is_requested(gate) => true,
            Some(_) if self.is_disabled(gate) => false,
            Some(state) => state == State::Beta && self.minor >= BETA_IS_ON,
        }
    }

    /// The state of a gate; None if the release does not have it.
    pub fn state(&self, gate: &str) -> Option<State> {
        let at = TABLE.binary_search_by_key(&gate, |(name, _)| name).ok()?;
        let (_, states) = TABLE.get(at)?;
        let column = usize::try_from(self.minor.saturating_sub(FIRST)).unwrap_or(usize::MAX);
        match states.get(column).or(states.last())? {
            b'A' => Some(State::Alpha),
            b'B' => Some(State::Beta),
            b'G' => Some(State::Ga),
            b'D' => Some(State::Deprecated),
            b'X' => Some(State::Discontinued),
            _ => None,
        }
    }

    /// Whether the resource enables it.
    pub fn is_requested(&self, gate: &str) -> bool {
        self.list("featureGates").any(|listed| listed == gate)
    }

    /// Whether the resource disables it.
    pub fn is_disabled(&self, gate: &str) -> bool {
        self.list("disabledFeatureGates")
            .any(|listed| listed == gate)
    }

    /// A list of `configuration.developerConfiguration`.
    pub(super) fn list(&self, field: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let list = self.developer.and_then(|developer| developer.get(field));
        let list = list.and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str)
    }
}

/// The minor version of a 1.x release.
fn minor(version: &str) -> u64 {
    let version = version.strip_prefix('v').unwrap_or(version);
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    let major = parts.next().and_then(|part| part.parse::<u64>().ok());
    let minor = parts.next().and_then(|part| part.parse::<u64>().ok());
    match (major, minor) {
        (Some(0), _) => 0,
        (Some(1), Some(minor)) => minor,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests;
