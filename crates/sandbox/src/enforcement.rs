//! Which layers are in force in one sandbox, as the sandbox itself reported.

use std::fmt;

/// One kernel mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    Userns,
    Mountns,
    Pidns,
    Netns,
    Ipcns,
    Utsns,
    Cgroupns,
    Capabilities,
    NoNewPrivs,
    Landlock,
    Seccomp,
    Notify,
    Rlimits,
    Cgroup,
    Overlay,
}

impl Layer {
    pub const ALL: [Layer; 15] = [
        Layer::Userns,
        Layer::Mountns,
        Layer::Pidns,
        Layer::Netns,
        Layer::Ipcns,
        Layer::Utsns,
        Layer::Cgroupns,
        Layer::Capabilities,
        Layer::NoNewPrivs,
        Layer::Landlock,
        Layer::Seccomp,
        Layer::Notify,
        Layer::Rlimits,
        Layer::Cgroup,
        Layer::Overlay,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Layer::Userns => "userns",
            Layer::Mountns => "mountns",
            Layer::Pidns => "pidns",
            Layer::Netns => "netns",
            Layer::Ipcns => "ipcns",
            Layer::Utsns => "utsns",
            Layer::Cgroupns => "cgroupns",
            Layer::Capabilities => "capabilities",
            Layer::NoNewPrivs => "no_new_privs",
            Layer::Landlock => "landlock",
            Layer::Seccomp => "seccomp",
            Layer::Notify => "notify",
            Layer::Rlimits => "rlimits",
            Layer::Cgroup => "cgroup",
            Layer::Overlay => "overlay",
        }
    }

    /// What is weaker without it, in a sentence for a person.
    pub fn weaker_without(self) -> &'static str {
        match self {
            Layer::Userns => "the command keeps your own identity on the host",
            Layer::Mountns => {
                "the filesystem is not hidden: paths outside the policy can be seen (stat, names), and the modes and times of your own files there can be changed"
            }
            Layer::Pidns => "host processes are visible, and processes left behind can outlive the run",
            Layer::Netns => "the network is closed by a system call filter only, not by an empty namespace",
            Layer::Ipcns => "System V and POSIX IPC objects of the host can be reached",
            Layer::Utsns => "the host name of the machine is visible",
            Layer::Cgroupns => "the cgroup path of the host is visible",
            Layer::Capabilities => "capabilities of the caller are kept",
            Layer::NoNewPrivs => "setuid programs can gain privileges",
            Layer::Landlock => "there is no second wall around the filesystem",
            Layer::Seccomp => "dangerous system calls are not filtered",
            Layer::Notify => "blocked system calls are denied but not logged",
            Layer::Rlimits => "resource limits are not applied",
            Layer::Cgroup => "limits on everything together are sampled, not held by the kernel",
            Layer::Overlay => "what is written cannot be undone",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The layers in force. A bit is set only by the process that built the layer, after the kernel agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Enforcement {
    bits: u32,
    /// The Landlock ABI in use, 0 when Landlock is not in force.
    pub landlock_abi: u32,
}

impl Enforcement {
    pub fn add(&mut self, layer: Layer) {
        self.bits |= 1 << layer as u32;
    }

    pub fn has(&self, layer: Layer) -> bool {
        self.bits & (1 << layer as u32) != 0
    }

    pub fn layers(&self) -> impl Iterator<Item = Layer> + '_ {
        Layer::ALL.into_iter().filter(|layer| self.has(*layer))
    }

    /// Those of `needed` that are not in force.
    pub fn missing(&self, needed: &[Layer]) -> Vec<Layer> {
        needed.iter().copied().filter(|layer| !self.has(*layer)).collect()
    }

    pub(crate) fn to_bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        let (bits, abi) = bytes.split_at_mut(4);
        bits.copy_from_slice(&self.bits.to_le_bytes());
        abi.copy_from_slice(&self.landlock_abi.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; 8]) -> Self {
        let number = u64::from_le_bytes(bytes);
        Enforcement { bits: number as u32, landlock_abi: (number >> 32) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_the_trip_to_the_parent() {
        let mut report = Enforcement { landlock_abi: 7, ..Enforcement::default() };
        report.add(Layer::Userns);
        report.add(Layer::Rlimits);
        assert_eq!(Enforcement::from_bytes(report.to_bytes()), report);
        assert_eq!(report.missing(&[Layer::Userns, Layer::Seccomp]), [Layer::Seccomp]);
    }
}
