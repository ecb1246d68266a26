//! What a history consists of, how it is run, and how one that breaks a law is shrunk.

use crate::world::{Start, World};
use crate::{Outcome, simulate};

/// What a user does to a floating IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tampering {
    Attach,
    /// Attaches one that is released.
    AttachReleased,
    Detach,
    /// Adds a port forwarding, or removes it.
    Forward,
    Delete,
    /// Adds a tag that is no mark.
    Tag,
    Describe,
    /// Describes one that nothing is written on.
    DescribeUnmarked,
    /// Removes the tags and the description, marks included.
    Wipe,
    /// Adds the mark of another owner.
    Mark,
    /// Adds tags until Neutron takes no more.
    Fill,
    /// The same, to one that is marked.
    FillMarked,
    /// Removes those again.
    Empty,
    /// Adds the mark of a pool of ours, for a claim that does not exist.
    MarkForNobody,
    /// Adds a release tag of the claim that has it, with a time of long ago or of the far future.
    MarkReleased(bool),
    /// Copies its description to another floating IP.
    CopyDescription,
    /// Adds a tag that looks like a mark and cannot be read.
    Garble,
}

/// What a user changes in a pool's spec.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edit {
    Limit(u8),
    List(u8),
    Exclude(u8),
    Reserve(u8, u8),
    MinFree(u8),
    Retain,
    Reuse(u8),
    Grace(u8),
    Network,
    Subnets,
    /// Names a subnet that does not exist, or no longer.
    MissingSubnet,
    OrphanGrace(u8),
    /// Orphans are only reported, or are released again.
    OrphanPolicy,
    /// Reserves the address that another claim of the pool has.
    ReserveHeld(u8, u8),
    Unreserve(u8),
    ExcludeRange(u8),
    /// Names another region for the credentials, or no longer.
    Region,
    /// Names a cloud that the Secret does not have, or no longer.
    CloudName,
    /// Asks for a ConfigMap with the addresses, of one of two names or the same as another pool, or no longer.
    AddressConfigMap(u8),
    /// Adds one of two tags for what the pool creates, or removes it. The second one is that of what pools may reuse.
    Tags(u8),
    /// Names one of the project's other credentials, a Secret that does not exist, or the usual one.
    Identity(u8),
    /// Names the network by its id, or by its name.
    NetworkId,
    /// Names several subnets, or one of them.
    SubnetList(u8),
}

/// How the objects of a namespace are restored after they were lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restoration {
    /// One of the six orders of pools, claims and IPAddresses.
    pub order: u8,
    /// Seconds between kinds.
    pub gap: u8,
    pub owners: Owners,
    /// Whether the status is restored too. `clusterctl move` leaves it behind.
    pub has_status: bool,
    /// Whether the controllers were stopped when everything was lost.
    pub is_stopped: bool,
}

/// What becomes of the owner references of what is restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owners {
    /// They name the UIDs of objects that no longer exist, as in a backup.
    Kept,
    Dropped,
    /// They name the new objects, and the Cluster is paused until all are there, as `clusterctl move` does.
    Moved,
}

/// One thing that happens. Numbers choose among what is there; of the processes, [`Event::LEADER`] and more the leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// So many hundredths of a second pass.
    Pass(u16),
    CreatePool(u8),
    /// The same, with `spec.poolID`: always the same one for a pool.
    CreatePoolWithId(u8),
    /// Whether in the foreground.
    DeletePool(u8, bool),
    Edit(u8, Edit),
    CreateClaim(u8),
    DeleteClaim(u8),
    /// A claim is deleted and its finalizers are removed by hand.
    ForceDeleteClaim(u8),
    /// CAPO adds its finalizer to a claim, or removes it.
    ToggleFinalizer(u8),
    DeleteAddress(u8),
    /// The machine of a bound claim starts.
    StartMachine(u8),
    /// The machine is deleted, and its port with it.
    StopMachine(u8),
    Tamper(u8, Tampering),
    CreateFloatingIp(u8),
    /// Another provider's IPAddress names an address, or no longer does.
    ToggleForeignAddress(u8, u8),
    /// An OpenStackCluster names an address for its API server, or no longer does.
    ToggleCluster(u8, u8),
    /// A pool of CAPO lists an address, or no longer does.
    ToggleInTreePool(u8, u8),
    /// A Cluster, pool or claim is paused, or no longer.
    TogglePause(u8, u8),
    /// The annotation with the pool's id is removed.
    WipeId(u8),
    /// The Secret with the credentials is deleted, or created again.
    ToggleSecret(u8),
    /// A fault at one of the calls to come.
    Fault(u8, u8, u8),
    /// A fault at the next write to OpenStack.
    FaultInWrite(u8, u8),
    /// Faults at a share of the calls to one side, for so many seconds.
    Outage(u8, u8, u8, u8),
    Kill(u8),
    /// A process gets a SIGTERM.
    Terminate(u8),
    /// The API server forgets its history, so that every watch must list again.
    ExpireWatches(u8),
    CutWatches(u8),
    /// The clock of a process is off by so many seconds from now on.
    JumpClock(u8, i8),
    /// A process stands still for so many seconds, and then goes on.
    Freeze(u8, u8),
    /// Writes of one kind of object take long and then fail or succeed, for so many seconds.
    Hang(u8, u8, u8),
    /// The watches of a process deliver nothing for so many seconds, and then begin again or not.
    Stall(u8, u8, bool),
    /// The watches of a process deliver only latest states from now on, or all again.
    ToggleSkipping(u8),
    /// The cloud drops, keeps, rewrites or hides what is written to it from now on.
    Alter(u8),
    /// The project gets a quota of so many floating IPs, or none.
    LimitQuota(u8),
    /// The password changes in the cloud.
    Revoke,
    /// The Secret gets the credentials that are good now.
    RenewSecret(u8),
    /// The Secret gets credentials for another region or another project.
    MisdirectSecret(u8, bool),
    /// The network gets another name, or its own again.
    RenameNetwork,
    /// The catalogue names another URL for the same Neutron, and nothing answers at the old one.
    MoveNeutron,
    /// The Secret names another URL of the same Keystone, or the usual one again.
    MoveKeystone(u8),
    /// A pool is deleted and its finalizers are removed by hand.
    ForceDeletePool(u8),
    /// A claim's IPAddress is copied to the name of another claim.
    CopyAddress(u8, u8),
    /// The IPAddress that a claim had last is created again, and the claim if it is gone.
    RestoreAddress(u8),
    /// A pool is copied with its id, or the copy is deleted.
    ToggleCopiedPool(u8),
    /// A user changes annotations of an IPAddress.
    EditAnnotation(u8, u8),
    /// A user deletes or changes a ConfigMap.
    EditConfigMap(u8, u8),
    /// Everything of a namespace is lost, and restored.
    Restore(u8, Restoration),
}

impl Event {
    /// The number of a process from which on it is the leader.
    pub const LEADER: u8 = 128;
}

/// Which events a history is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scenario {
    /// Claims come and go, with every kind of fault.
    Faults,
    /// Users interfere too.
    Interference,
    /// Every pool of every management cluster lists the same addresses and reuses the same floating IPs.
    SharedAddresses,
    /// Claims come and go with every kind of fault, and everything is lost and restored now and then.
    Restores,
    /// The cloud alters what is written to it, for a time or for ever.
    AlteredCloud,
}

/// Runs a history until it ends or breaks a law.
pub fn replay(start: &Start, events: &[Event]) -> Outcome {
    simulate(start, async |world: &World| {
        for event in events {
            world.apply(*event).await;
            world.judge(false);
            if world.has_violations() {
                return;
            }
        }
        world.end(start.seed).await;
    })
}

/// The shortest part that was found of a history that breaks a law, and still breaks one: pieces are left out, larger ones
/// first.
pub fn shrink(start: &Start, events: &[Event]) -> Vec<Event> {
    let mut core = events.to_vec();
    let (mut piece, mut tries) = (core.len().div_ceil(2), 0);
    while piece > 0 && tries < TRIES {
        let (mut at, before) = (0, core.len());
        while at < core.len() {
            let mut rest = core.clone();
            rest.drain(at..(at + piece).min(core.len()));
            tries += 1;
            if replay(start, &rest).violations.is_empty() { at += piece } else { core = rest }
        }
        // Once more with pieces of one, as long as that helps.
        piece = if piece == 1 && core.len() < before { 1 } else { piece / 2 };
    }
    core
}

/// More than a history needs to be shrunk to a readable length.
const TRIES: usize = 200;
