//! Linux: namespaces, mounts, Landlock and seccomp. The story is in [`launch`] (outside) and `child`
//! (inside, step by step); `init` is what stays inside as process 1.

pub mod bpf;
mod broker;
pub mod capture;
pub mod cgroup;
mod channel;
mod child;
pub mod errand;
pub mod guardian;
mod inherited;
mod init;
mod landlock;
pub mod launch;
pub mod launcher;
pub mod network;
pub mod notify;
mod offspring;
mod owners;
mod program;
mod shield;
mod socket_owner;
mod storage;
pub mod sys;
pub mod syscalls;
pub mod traffic;
mod view;
mod walk;
