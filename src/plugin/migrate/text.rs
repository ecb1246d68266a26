//! A plan as text: YAML for `kubectl apply -f -`, with the rest of the plan in comments.

use anstyle::AnsiColor;

use super::plan::{ObjectState, Plan, PlannedObject};
use crate::plugin::output::{Report, bold, paint};

impl Report for Plan {
    fn text(&self, _: bool) -> String {
        let mut text = format!(
            "# {}\n",
            bold(format_args!(
                "Migration from CAPO's pool {0}/{1} to {0}/{2} of ipam.cluster.x-k8s.io",
                self.namespace, self.from, self.to
            ))
        );
        text += &list(&paint(AnsiColor::Red, "Obstacles"), &self.obstacles);
        text += &list(&paint(AnsiColor::Yellow, "Remarks"), &self.remarks);
        let machines = self.machines.iter().map(|machine| {
            let address = machine.address.as_deref().unwrap_or("no address");
            let cluster = machine.cluster.as_ref().map_or(String::new(), |cluster| format!(" of {cluster}"));
            format!("{}{cluster}, {address}: {}", machine.machine, machine.change)
        });
        text += &list("Machines", &machines.collect::<Vec<_>>());
        if self.machines.is_empty() {
            text += "#\n# No machine has an address of CAPO's pool.\n";
        }
        let objects = self.objects.iter();
        if self.is_applied {
            text += "#\n";
            text += &objects
                .map(|object| format!("# {}: {}\n", object.title(), object.describe_state()))
                .collect::<String>();
        } else {
            text += &objects.map(PlannedObject::document).collect::<String>();
            text += "---\n# Nothing was changed";
            text += if self.obstacles.is_empty() { "; --apply writes these objects.\n" } else { ".\n" };
        }
        if !self.next_steps.is_empty() {
            text += "# Next steps:\n";
        }
        for step in &self.next_steps {
            text += &if step.starts_with('#') { format!("{step}\n") } else { format!("#   {step}\n") };
        }
        text
    }
}

impl PlannedObject {
    fn describe_state(&self) -> String {
        match self.state {
            ObjectState::New => "to be created".into(),
            ObjectState::Unchanged => "exists, unchanged".into(),
            ObjectState::Incomplete => "exists; addresses are added to its list".into(),
            ObjectState::Different => paint(AnsiColor::Red, "exists, but is different"),
            ObjectState::Created => paint(AnsiColor::Green, "created"),
            ObjectState::Completed => paint(AnsiColor::Green, "list completed"),
        }
    }

    fn document(&self) -> String {
        let manifest = serde_saphyr::to_string(&self.manifest).unwrap_or_default();
        format!("---\n# {}\n{}\n", self.describe_state(), manifest.trim_end())
    }
}

/// Lines as comments. Users who may create claims choose a part of them, and must not get out of the comment: the plan is
/// YAML that its reader applies.
fn list(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines = lines.iter().map(|line| format!("#   - {}\n", line.replace('\n', "\\n")));
    format!("#\n# {title}:\n") + &lines.collect::<String>()
}
