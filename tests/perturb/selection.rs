//! Which plans are run, by the environment.

use std::collections::BTreeMap;

use super::plan::{Class, Plan};
use super::workloads::Workload;

/// How many of each class a sample has of each of its workloads.
const OF_EACH_CLASS: usize = 2;

pub enum Selection {
    All,
    /// `PERTURB_LIST=1`: none; they are printed.
    List,
    /// `PERTURB_SHARD=2/4`: the second of four.
    Shard(usize, usize),
    /// `PERTURB_PLAN=bind/crash/...`: those whose identifier begins so, also when they have a result.
    Named(String),
    /// `PERTURB_SAMPLE=12`: so many of some workloads, chosen by `PERTURB_SEED`, or else others each day.
    Sample(usize, u64),
}

impl Selection {
    pub fn from_environment() -> Self {
        let seed = || number("PERTURB_SEED").unwrap_or_else(|| jiff::Timestamp::now().as_second() as u64 / 86_400);
        match (text("PERTURB_PLAN"), number("PERTURB_SAMPLE"), text("PERTURB_SHARD")) {
            _ if text("PERTURB_LIST").is_some() => Self::List,
            (Some(plan), _, _) => Self::Named(plan),
            (_, Some(count), _) => Self::Sample(count as usize, seed()),
            (_, _, Some(shard)) => {
                let parts = shard.split_once('/').and_then(|(one, of)| Some((one.parse().ok()?, of.parse().ok()?)));
                let (one, of) = parts.filter(|(one, of)| (1..=*of).contains(one)).expect("PERTURB_SHARD is like 1/4");
                Self::Shard(one, of)
            }
            _ => Self::All,
        }
    }

    /// The workloads whose plans are needed.
    pub fn workloads(&self) -> Vec<Workload> {
        let mut all = Workload::ALL.to_vec();
        match self {
            Self::Named(plan) => all.retain(|workload| plan.split('/').next() == Some(workload.name())),
            Self::Sample(count, seed) => {
                // A move takes as long as all the others, and has scenarios of its own.
                all.retain(|workload| !workload.is_between_clusters());
                fastrand::Rng::with_seed(*seed).shuffle(&mut all);
                all.truncate(count.div_ceil(OF_EACH_CLASS * Class::ALL.len()));
            }
            Self::All | Self::List | Self::Shard(..) => {}
        }
        all
    }

    pub fn choose(&self, plans: Vec<Plan>) -> Vec<Plan> {
        match self {
            Self::All => plans,
            Self::List => {
                plans.iter().for_each(|plan| println!("{plan}"));
                Vec::new()
            }
            Self::Shard(one, of) => plans.into_iter().skip(one - 1).step_by(*of).collect(),
            Self::Named(id) => {
                let found: Vec<Plan> = plans.into_iter().filter(|plan| plan.to_string().starts_with(id)).collect();
                assert!(!found.is_empty(), "there is no plan {id}");
                found
            }
            Self::Sample(count, seed) => sample(plans, *count, *seed),
        }
    }

    /// Whether a plan is run that has a result.
    pub fn repeats(&self) -> bool {
        matches!(self, Self::Named(_) | Self::Sample(..))
    }
}

fn sample(mut plans: Vec<Plan>, count: usize, seed: u64) -> Vec<Plan> {
    fastrand::Rng::with_seed(seed).shuffle(&mut plans);
    let mut taken: BTreeMap<(Workload, Class), usize> = BTreeMap::new();
    plans.retain(|plan| {
        let taken = taken.entry((plan.workload, plan.class())).or_default();
        *taken += 1;
        *taken <= OF_EACH_CLASS
    });
    plans.truncate(count);
    plans
}

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub fn number(name: &str) -> Option<u64> {
    Some(text(name)?.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}
