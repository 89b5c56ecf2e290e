//! How a working fork runs (R117): chosen by what the client can do now.

use serde::{Deserialize, Serialize};

/// A way to run a working fork, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The hooks module starts it in the session: warm cache, quiet.
    Module,
    /// One line asks main to start it.
    Subagent,
    /// A process of its own (R118).
    Headless,
    /// None: main gets the thread at once.
    Main,
}

impl Way {
    /// The word that the configuration, the journal and `leaf doctor` use.
    pub fn word(self) -> &'static str {
        match self {
            Way::Module => "module",
            Way::Subagent => "subagent",
            Way::Headless => "headless",
            Way::Main => "main",
        }
    }

    /// Reads a way that may be asked for.
    pub fn parse(word: &str) -> Option<Way> {
        [Way::Module, Way::Subagent, Way::Headless, Way::Main].into_iter().find(|way| way.word() == word)
    }
}

/// Who does the follower's part for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// The hooks module, by `leaf follow`.
    Module,
    /// `leaf watch`, while main is idle.
    Watch,
    /// Nobody: nothing is kept back.
    Nobody,
}

/// What the client's environment rules out, as SessionStart found it (R2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// `CLAUDE_CODE_COORDINATOR_MODE` is on.
    pub coordinator: bool,
    /// `CLAUDE_CODE_FORK_SUBAGENT` is off.
    pub no_forks: bool,
    /// `CLAUDE_CODE_DISABLE_BACKGROUND_TASKS` is on.
    pub no_background: bool,
}

/// What the choice rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Who does the follower's part.
    pub follows: Follows,
    /// Whether the person stopped main and has not prompted since.
    pub stopped: bool,
    /// Whether a person sits before the session.
    pub attended: bool,
    /// What the client's environment rules out.
    pub limits: Limits,
    /// Nothing came of the module's starts of forks in this generation.
    pub module_misses: bool,
    /// Nothing came of main's starts of forks in this generation.
    pub subagent_misses: bool,
    /// Its cost was allowed (`forks.headless`), or asked for (`forks.way`).
    pub headless: bool,
    /// Whether the client's program can be found.
    pub program: bool,
    /// The way that was asked for: no other is tried but main.
    pub asked: Option<Way>,
}

/// A chosen way, with a sentence that says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The way.
    pub way: Way,
    /// Why this one, in plain words.
    pub why: String,
}

/// Chooses how a fork runs now (R117).
pub fn how(facts: &Facts) -> Choice {
    if let Some(asked) = facts.asked {
        return match barred(asked, facts) {
            None => Choice { way: asked, why: format!("forks.way asks for {}", asked.word()) },
            Some(why) => Choice { way: Way::Main, why: format!("forks.way asks for {}, but {why}", asked.word()) },
        };
    }
    let mut ruled_out: Vec<String> = Vec::new();
    for way in [Way::Module, Way::Subagent, Way::Headless] {
        match barred(way, facts) {
            None => {
                if ruled_out.is_empty() {
                    ruled_out.push("the hooks module follows the session".to_owned());
                }
                return Choice { way, why: ruled_out.join("; ") };
            }
            // What rules out the first two is said once.
            Some(why) if ruled_out.contains(&why) => {}
            Some(why) => ruled_out.push(why),
        }
    }
    Choice { way: Way::Main, why: ruled_out.join("; ") }
}

/// Returns why a way can't be taken now.
fn barred(way: Way, facts: &Facts) -> Option<String> {
    let why = match way {
        Way::Module | Way::Subagent | Way::Headless if facts.follows == Follows::Nobody => {
            "nobody follows the session, so that main gets what is written"
        }
        Way::Module if facts.follows != Follows::Module => "no hooks module follows the session",
        Way::Module | Way::Subagent if facts.stopped => {
            "the session was stopped, and the client starts no fork before the user's next prompt"
        }
        Way::Module | Way::Subagent if facts.limits.coordinator => "the client is in coordinator mode",
        Way::Module | Way::Subagent if facts.limits.no_forks => "forks are switched off in the client",
        Way::Module | Way::Subagent if facts.limits.no_background => "background tasks are switched off in the client",
        Way::Module if facts.module_misses => "the module got no fork started",
        Way::Subagent if facts.subagent_misses => "main got no fork started",
        Way::Headless if !facts.headless => "forks.headless, which costs a process of its own, is not on",
        Way::Headless if !facts.attended => "nobody attends the session, which may end before a headless run does",
        Way::Headless if !facts.program => "the client's program is not found on PATH",
        Way::Module | Way::Subagent | Way::Headless | Way::Main => return None,
    };
    Some(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        follows: Follows::Module,
        stopped: false,
        attended: true,
        limits: Limits { coordinator: false, no_forks: false, no_background: false },
        module_misses: false,
        subagent_misses: false,
        headless: false,
        program: true,
        asked: None,
    };

    #[test]
    fn r117_the_first_way_that_the_client_can_do_now() {
        assert_eq!(how(&FACTS).way, Way::Module);
        let refused = Facts { module_misses: true, ..FACTS };
        assert_eq!(how(&refused).way, Way::Subagent);
        assert_eq!(how(&Facts { follows: Follows::Watch, ..FACTS }).way, Way::Subagent);
        assert_eq!(how(&Facts { stopped: true, ..FACTS }).way, Way::Main);
        assert_eq!(how(&Facts { follows: Follows::Nobody, headless: true, ..FACTS }).way, Way::Main);
        let both = Facts { subagent_misses: true, ..refused };
        assert_eq!(how(&both).way, Way::Main);
        assert_eq!(how(&Facts { headless: true, ..both }).way, Way::Headless);
        assert_eq!(how(&Facts { headless: true, program: false, ..both }).way, Way::Main);
        assert_eq!(how(&Facts { headless: true, attended: false, ..both }).way, Way::Main);
    }

    #[test]
    fn r117_the_clients_switches_rule_out_the_first_two() {
        let off = |limits: Limits| Facts { limits, ..FACTS };
        for limits in [
            Limits { coordinator: true, ..Limits::default() },
            Limits { no_forks: true, ..Limits::default() },
            Limits { no_background: true, ..Limits::default() },
        ] {
            let choice = how(&off(limits));
            assert_eq!(choice.way, Way::Main);
            assert_eq!(choice.why.matches("client").count(), 1, "said once: {}", choice.why);
            assert_eq!(how(&Facts { headless: true, ..off(limits) }).way, Way::Headless);
        }
    }

    #[test]
    fn r117_the_way_that_is_asked_for_or_main() {
        let asked = |way, facts: Facts| how(&Facts { asked: Some(way), headless: true, ..facts });
        for way in [Way::Module, Way::Subagent, Way::Headless, Way::Main] {
            assert_eq!(asked(way, FACTS).way, way);
        }
        let nobody = Facts { follows: Follows::Watch, ..FACTS };
        let choice = asked(Way::Module, nobody);
        assert_eq!(choice.way, Way::Main);
        assert!(choice.why.contains("no hooks module"), "{}", choice.why);
    }
}
