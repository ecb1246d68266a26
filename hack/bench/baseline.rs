//! What plain HTTP clients reach against the same Neutron: the limit of the server, and so of us.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};

use crate::neutron::{NOTE, Neutron};

/// How many calls of a kind are timed.
pub const CALLS: usize = 100;
const TAG: &str = "bench-baseline";

/// The writes that the program makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// `POST floatingips`, with a description.
    Create,
    /// `PUT floatingips/ID/tags/TAG`.
    Tag,
    /// `PUT floatingips/ID` with a description.
    Describe,
    /// `DELETE floatingips/ID`.
    Delete,
}

/// Seconds for [`CALLS`] calls of each kind; none where it was not measured.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    pub create: Option<f64>,
    pub tag: Option<f64>,
    pub describe: Option<f64>,
    pub delete: Option<f64>,
}

impl Limits {
    /// Of one kind.
    pub fn of(&self, write: Write) -> Option<f64> {
        match write {
            Write::Create => self.create,
            Write::Tag => self.tag,
            Write::Describe => self.describe,
            Write::Delete => self.delete,
        }
    }

    /// The better of both, for each kind.
    pub fn better(&self, other: &Self) -> Self {
        let best = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self {
            create: best(self.create, other.create),
            tag: best(self.tag, other.tag),
            describe: best(self.describe, other.describe),
            delete: best(self.delete, other.delete),
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, seconds) in
            [("POST", self.create), ("PUT tag", self.tag), ("PUT description", self.describe), ("DELETE", self.delete)]
        {
            if let Some(seconds) = seconds {
                write!(f, "{name} {seconds:.1} s  ")?;
            }
        }
        Ok(())
    }
}

/// Floating IPs to write on, and the best number of clients for each kind of write.
pub struct Baseline<'a> {
    neutron: &'a Neutron,
    network: String,
    stock: Vec<String>,
    best: Vec<(Write, usize, f64)>,
}

impl<'a> Baseline<'a> {
    /// Makes the floating IPs that tags and descriptions are written on.
    pub async fn prepare(neutron: &'a Neutron, network: &str) -> Result<Self> {
        let stock = neutron.create_many(network, NOTE, CALLS).await?;
        let stock = stock.into_iter().map(|floating_ip| floating_ip.id).collect();
        Ok(Self { neutron, network: network.to_owned(), stock, best: Vec::new() })
    }

    /// All four kinds with this many clients.
    pub async fn measure_all(&self, clients: usize) -> Result<Limits> {
        let (create, delete) = self.create_and_delete(clients, clients).await?;
        let (create, delete) = (Some(create), Some(delete));
        let (tag, describe) = (Some(self.tags(clients).await?), Some(self.descriptions(clients).await?));
        Ok(Limits { create, tag, describe, delete })
    }

    /// Remembers the number of clients that was best for each kind.
    pub fn learn(&mut self, clients: usize, limits: &Limits) {
        for write in [Write::Create, Write::Tag, Write::Describe, Write::Delete] {
            let Some(seconds) = limits.of(write) else { continue };
            match self.best.iter_mut().find(|(known, ..)| *known == write) {
                Some(known) if known.2 <= seconds => {}
                Some(known) => *known = (write, clients, seconds),
                None => self.best.push((write, clients, seconds)),
            }
        }
    }

    /// One kind of write with its best number of clients; with a creation comes a deletion.
    pub async fn measure(&self, write: Write) -> Result<Limits> {
        match write {
            Write::Create | Write::Delete => {
                let clients = (self.clients(Write::Create), self.clients(Write::Delete));
                let (create, delete) = self.create_and_delete(clients.0, clients.1).await?;
                Ok(Limits { create: Some(create), delete: Some(delete), ..Limits::default() })
            }
            Write::Tag => Ok(Limits { tag: Some(self.tags(self.clients(write)).await?), ..Limits::default() }),
            Write::Describe => {
                Ok(Limits { describe: Some(self.descriptions(self.clients(write)).await?), ..Limits::default() })
            }
        }
    }

    fn clients(&self, write: Write) -> usize {
        // Eight is what Neutron gains from on the machines that we know.
        self.best.iter().find(|(known, ..)| *known == write).map_or(8, |(_, clients, _)| *clients)
    }

    async fn create_and_delete(&self, creators: usize, deleters: usize) -> Result<(f64, f64)> {
        let begun = Instant::now();
        let creations = (0..CALLS).map(|_| self.neutron.create(&self.network, NOTE));
        let made: Vec<_> = stream::iter(creations).buffer_unordered(creators).try_collect().await?;
        let create = seconds(begun.elapsed());
        let begun = Instant::now();
        stream::iter(&made)
            .map(|made| self.neutron.delete(&made.id))
            .buffer_unordered(deleters)
            .try_collect::<()>()
            .await?;
        Ok((create, seconds(begun.elapsed())))
    }

    async fn tags(&self, clients: usize) -> Result<f64> {
        let begun = Instant::now();
        stream::iter(&self.stock)
            .map(|id| self.neutron.tag(id, TAG))
            .buffer_unordered(clients)
            .try_collect::<()>()
            .await?;
        let taken = seconds(begun.elapsed());
        // Else the next measurement would find nothing to write.
        stream::iter(&self.stock).map(|id| self.neutron.untag(id, TAG)).buffer_unordered(8).try_collect::<()>().await?;
        Ok(taken)
    }

    async fn descriptions(&self, clients: usize) -> Result<f64> {
        // A new text each time, of the length of a mark.
        let text = format!("{NOTE}, {:?}", Instant::now());
        let begun = Instant::now();
        stream::iter(&self.stock)
            .map(|id| self.neutron.describe(id, &text))
            .buffer_unordered(clients)
            .try_collect::<()>()
            .await?;
        Ok(seconds(begun.elapsed()))
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
