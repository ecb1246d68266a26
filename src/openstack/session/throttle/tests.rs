use super::*;
use crate::openstack::ErrorKind;

const MAX_CALLS: usize = 8;
/// A proxy's answer that there is no Neutron comes after this time.
const FAILS_AFTER: Duration = Duration::from_secs(5);

struct Cloud(Arc<Throttle>);

impl Cloud {
    fn new() -> Self {
        Self(Arc::new(Throttle::new(Clock::system(), MAX_CALLS)))
    }

    async fn permit(&self, project: &str) -> Result<Permit, Error> {
        self.0.acquire(&ProjectId::new(project)).await
    }

    /// Sends a call, if that is allowed, which takes so long. Returns whether it was sent.
    async fn call(&self, project: &str, takes: Duration, health: Health) -> bool {
        let Ok(mut permit) = self.permit(project).await else { return false };
        tokio::time::sleep(takes).await;
        let error = Error::new(ErrorKind::Server, "create", "503");
        permit.record(health, (health != Health::Answering).then_some(&error));
        true
    }

    async fn answers(&self, project: &str) -> bool {
        self.call(project, Duration::from_millis(100), Health::Answering).await
    }

    async fn fails(&self, project: &str) -> bool {
        self.call(project, FAILS_AFTER, Health::Failing(None)).await
    }
}

#[tokio::test]
async fn any_number_of_calls_may_be_allowed() {
    let throttle = Arc::new(Throttle::new(Clock::system(), usize::MAX));
    assert!(throttle.acquire(&ProjectId::new("p")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn project_whose_calls_alone_fail_neither_stops_nor_slows_another() {
    let cloud = Cloud::new();
    for _ in 0..3 {
        futures::future::join_all((0..MAX_CALLS).map(|_| cloud.fails("bad"))).await;
        assert!(cloud.answers("good").await, "it is asked although the other one's calls failed");
    }
    // Its own breaker is open.
    assert!(!cloud.fails("bad").await);
    let mut failing = 0;
    let began = Instant::now();
    tokio::join!(
        async {
            while began.elapsed() < Duration::from_secs(600) {
                failing += usize::from(cloud.fails("bad").await);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        },
        async {
            while began.elapsed() < Duration::from_secs(600) {
                let began = Instant::now();
                assert!(cloud.answers("good").await);
                assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
            }
        }
    );
    assert!((20..60).contains(&failing), "a probe every 10 to 15 s and 5 s more: {failing}");
}

#[tokio::test(start_paused = true)]
async fn wait_that_one_project_is_asked_for_is_its_own() {
    let cloud = Cloud::new();
    let wait = Some(Duration::from_secs(60));
    for _ in 0..5 {
        assert!(cloud.call("limited", Duration::from_millis(10), Health::Overloaded(wait)).await);
        let began = Instant::now();
        for good in ["good", "new"] {
            assert!(cloud.answers(good).await);
        }
        assert!(began.elapsed() < Duration::from_secs(1));
        let refused = cloud.permit("limited").await.err().expect("it has to wait");
        assert_eq!(refused.kind, ErrorKind::TooManyRequests);
        tokio::time::sleep(Duration::from_secs(57)).await;
        assert!(cloud.permit("limited").await.is_ok() && began.elapsed() >= Duration::from_secs(59));
        assert!(cloud.0.state.lock().limiter.limit() >= MAX_CALLS / 2);
    }
}

#[tokio::test(start_paused = true)]
async fn cloud_that_is_down_gets_few_calls_whatever_the_number_of_projects() {
    let cloud = Cloud::new();
    let names: Vec<_> = (0..50).map(|number| number.to_string()).collect();
    for name in &names {
        assert!(cloud.answers(name).await);
    }
    let mut sent = 0;
    let (minute, mut first) = (Duration::from_secs(60), 0);
    let half_second = Duration::from_millis(500);
    for begun in 0..20 {
        let began = Instant::now();
        while began.elapsed() < minute {
            let calls = names.iter().map(|name| cloud.call(name, Duration::from_millis(10), Health::Failing(None)));
            sent += futures::future::join_all(calls).await.into_iter().filter(|is_sent| *is_sent).count();
            tokio::time::sleep(half_second).await;
        }
        if begun == 0 {
            first = std::mem::take(&mut sent);
        }
    }
    assert!(first <= 2 * names.len(), "{first}");
    // A probe every 10 to 15 s; one call of each project after 90 s, and then one every five minutes.
    let most = 19 * (6 + names.len() / 5) + names.len();
    assert!((19 * 3..=most).contains(&sent), "{sent}");

    let began = Instant::now();
    for name in &names {
        while !cloud.answers(name).await {
            tokio::time::sleep(half_second).await;
        }
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn project_that_was_quiet_is_answered_beside_three_that_fail() {
    let (cloud, began, hangs) = (Cloud::new(), Instant::now(), Duration::from_secs(30));
    assert!(cloud.answers("quiet").await);
    let retry = async |name: &'static str| {
        while began.elapsed() < Duration::from_secs(600) {
            if !cloud.call(name, hangs, Health::Failing(None)).await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    };
    tokio::join!(retry("a"), retry("b"), retry("c"), async {
        tokio::time::sleep(Duration::from_secs(300)).await;
        for _ in 0..3 {
            let began = Instant::now();
            while !cloud.answers("quiet").await {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            // A call that hangs may use the only slot.
            assert!(began.elapsed() <= hangs * 2, "{:?}", began.elapsed());
            tokio::time::sleep(Duration::from_secs(90)).await;
        }
    });
}

#[tokio::test(start_paused = true)]
async fn project_that_failed_once_is_answered_soon_beside_three_that_go_on_failing() {
    let (cloud, began) = (Cloud::new(), Instant::now());
    let retry = async |name: &'static str| {
        while began.elapsed() < Duration::from_secs(600) {
            if !cloud.fails(name).await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    };
    tokio::join!(retry("a"), retry("b"), retry("c"), async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        while !cloud.fails("once").await {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(RETRIED_AFTER).await;
        let began = Instant::now();
        while !cloud.answers("once").await {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    });
}

#[tokio::test(start_paused = true)]
async fn failures_of_projects_that_do_not_come_back_are_forgotten() {
    let cloud = Cloud::new();
    for number in 0..1000 {
        let name = number.to_string();
        while !cloud.fails(&name).await {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let kept = cloud.0.state.lock().unanswered.len();
    assert!(kept <= 40, "{kept}: one each 15 s, for ten minutes");
}

#[tokio::test(start_paused = true)]
async fn probe_that_is_given_up_is_replaced_by_another() {
    let cloud = Cloud::new();
    futures::future::join_all((0..MAX_CALLS).map(|_| cloud.fails("bad"))).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let probe = cloud.permit("bad").await;
    assert!(probe.is_ok() && cloud.permit("bad").await.is_err());
    drop(probe);
    assert!(cloud.answers("bad").await);
    assert!(cloud.answers("bad").await);
}

#[tokio::test(start_paused = true)]
async fn no_project_waits_long_to_be_refused_while_the_cloud_hangs() {
    let (cloud, began) = (Cloud::new(), Instant::now());
    let hangs = Duration::from_secs(30);
    let longest = futures::future::join_all((0..50).map(async |name: u32| {
        let mut longest = Duration::ZERO;
        while began.elapsed() < Duration::from_secs(1800) {
            let asked = Instant::now();
            let is_sent = cloud.call(&name.to_string(), hangs, Health::Failing(None)).await;
            let waited = asked.elapsed().saturating_sub(if is_sent { hangs } else { Duration::ZERO });
            longest = longest.max(waited);
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        longest
    }));
    let longest = longest.await.into_iter().max().expect("there are projects");
    assert!(longest <= 3 * hangs, "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_project_that_are_answered_slowly_do_not_lower_the_limit_of_all() {
    let cloud = Cloud::new();
    for _ in 0..5 {
        assert!(cloud.call("slow", Duration::from_secs(15), Health::Answering).await);
    }
    let state = cloud.0.state.lock();
    assert_eq!(state.limiter.limit(), MAX_CALLS / 2, "the first one may mean that the cloud is slow");
}

#[tokio::test(start_paused = true)]
async fn project_with_one_failure_is_answered_while_another_ones_calls_hang() {
    let cloud = Cloud::new();
    assert!(cloud.fails("good").await);
    let hanging = (0..MAX_CALLS).map(|_| cloud.call("bad", Duration::from_secs(30), Health::Failing(None)));
    futures::future::join_all(hanging).await;
    let began = Instant::now();
    assert!(cloud.answers("good").await);
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn cloud_that_is_too_slow_for_most_projects_gets_fewer_calls_of_all() {
    let (cloud, slow, mut lowest) = (Cloud::new(), Duration::from_secs(15), MAX_CALLS);
    let calls = async |name: &'static str| {
        for _ in 0..4 {
            assert!(cloud.call(name, slow, Health::Answering).await);
        }
    };
    tokio::join!(calls("a"), calls("b"), calls("c"), async {
        for _ in 0..60 {
            assert!(cloud.answers("quick").await);
            lowest = lowest.min(cloud.0.state.lock().limiter.limit());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    assert!(lowest <= MAX_CALLS / 2, "{lowest}");
}

#[tokio::test(start_paused = true)]
async fn project_that_is_new_finds_that_the_cloud_answers_it() {
    let cloud = Cloud::new();
    for _ in 0..2 {
        futures::future::join_all((0..MAX_CALLS).map(|_| cloud.fails("bad"))).await;
    }
    assert!(!cloud.fails("bad").await, "the breaker is open");
    let began = Instant::now();
    assert!(cloud.answers("good").await, "it may be spared");
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn project_in_trouble_uses_few_slots_and_as_many_as_before_when_it_is_answered_again() {
    let cloud = Cloud::new();
    assert!(cloud.fails("bad").await);
    for _ in 0..4 {
        assert!(cloud.answers("good").await);
        // Its reads are answered, so that its breaker does not open.
        assert!(cloud.fails("bad").await && cloud.answers("bad").await);
    }
    let in_use = async || {
        let mut permits = Vec::new();
        while let Ok(Ok(permit)) = tokio::time::timeout(Duration::from_millis(1), cloud.permit("bad")).await {
            permits.push(permit);
        }
        permits.len()
    };
    let few = in_use().await;
    assert!(few <= 2, "{few}");
    for _ in 0..40 {
        assert!(cloud.answers("bad").await);
    }
    assert_eq!(in_use().await, MAX_CALLS);
}
