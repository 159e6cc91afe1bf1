//! Feature gates: which are on, for a KubeVirt resource and the release it asks for.
//!
//! A gate has another state in another release, so the wanted release decides, not the operator's.
//! Releases before the first that is known are taken for that one, later ones for the last.

use api::kubevirt::install::KubeVirt;
use serde_json::Value;

/// How mature a feature is in a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Off unless asked for.
    Alpha,
    /// On unless refused, from 1.9 on; before, off unless asked for.
    Beta,
    /// Always on.
    Ga,
    /// Off unless asked for, and about to go.
    Deprecated,
    /// Gone.
    Discontinued,
}

/// The minor release of 1 that the first column of [`TABLE`] is.
const FIRST: u64 = 5;

/// The first minor release of 1 whose features are on in Beta.
const BETA_IS_ON: u64 = 9;

/// The states of every gate in 1.5, 1.6, 1.7, 1.8 and 1.9.
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

/// The gates of a KubeVirt resource, in the release it asks for.
#[derive(Clone, Copy, Debug)]
pub struct Gates<'a> {
    minor: u64,
    developer: Option<&'a Value>,
}

impl<'a> Gates<'a> {
    /// The gates of that resource in that release. What is no release, such as `latest`, is taken
    /// for the last one that is known.
    pub fn of(kubevirt: &'a KubeVirt, version: &str) -> Self {
        let configuration = kubevirt.spec.configuration.as_ref();
        Self {
            minor: minor(version),
            developer: configuration.and_then(|all| all.get("developerConfiguration")),
        }
    }

    /// Whether the release is later than those that are known, or none.
    pub fn is_later(&self) -> bool {
        let last = TABLE.first().map_or(0, |(_, states)| states.len());
        self.minor >= FIRST.saturating_add(last as u64)
    }

    /// Whether a feature is on.
    pub fn on(&self, gate: &str) -> bool {
        match self.state(gate) {
            None | Some(State::Discontinued) => false,
            Some(State::Ga) => true,
            Some(_) if self.asked_for(gate) => true,
            Some(_) if self.refused(gate) => false,
            Some(state) => state == State::Beta && self.minor >= BETA_IS_ON,
        }
    }

    /// How mature a feature is; None when the release does not know it.
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

    /// Whether the resource asks for it.
    pub fn asked_for(&self, gate: &str) -> bool {
        self.list("featureGates").any(|listed| listed == gate)
    }

    /// Whether the resource refuses it.
    pub fn refused(&self, gate: &str) -> bool {
        self.list("disabledFeatureGates")
            .any(|listed| listed == gate)
    }

    /// What the resource lists under a field of `configuration.developerConfiguration`.
    pub(super) fn list(&self, field: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let list = self.developer.and_then(|developer| developer.get(field));
        let list = list.and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str)
    }
}

/// The minor release of 1 that a version is of.
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
