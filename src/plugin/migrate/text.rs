//! A plan for people: a YAML file that `kubectl apply -f -` takes, with the rest of the plan as its comments.

use anstyle::{AnsiColor, Style};

use super::plan::{Object, Plan, State};
use crate::plugin::output::{Report, bold, paint, style, yaml};

impl Report for Plan {
    fn text(&self, _: bool) -> String {
        let mut text = format!(
            "# {}\n",
            bold(format_args!(
                "From CAPO's pool {0}/{1} to {0}/{2} of ipam.cluster.x-k8s.io",
                self.namespace, self.from, self.to
            ))
        );
        text += &list("What stands in the way", &self.obstacles, Some(AnsiColor::Red));
        text += &list("What to know", &self.remarks, Some(AnsiColor::Yellow));
        let machines = self.machines.iter().map(|machine| {
            let address = machine.address.as_deref().unwrap_or("no address");
            let cluster = machine.cluster.as_ref().map_or(String::new(), |cluster| format!(" of {cluster}"));
            format!("{}{cluster}, {address}: {}", machine.machine, machine.change)
        });
        text += &list("What changes for each machine", &machines.collect::<Vec<_>>(), None);
        if self.machines.is_empty() {
            text += "#\n# No machine has an address of CAPO's pool.\n";
        }
        let objects = self.objects.iter();
        if self.is_applied {
            text += "#\n";
            text += &objects.map(|object| format!("# {}: {}\n", object.title(), object.said())).collect::<String>();
        } else {
            text += &objects.map(Object::document).collect::<String>();
            text += "---\n# Nothing was changed";
            text += if self.obstacles.is_empty() { "; --apply creates what is above.\n" } else { ".\n" };
        }
        let then = self
            .then
            .iter()
            .map(|step| if step.starts_with('#') { format!("{step}\n") } else { format!("#   {step}\n") });
        text + "# Then:\n" + &then.collect::<String>()
    }
}

impl Object {
    fn said(&self) -> String {
        match self.state {
            State::New => "to be created".into(),
            State::Unchanged => "there already, unchanged".into(),
            State::Different => paint(style(AnsiColor::Red), "there already, and another one"),
            State::Created => paint(style(AnsiColor::Green), "created"),
        }
    }

    fn document(&self) -> String {
        let manifest = yaml(&self.manifest).unwrap_or_default();
        format!("---\n# {}\n{}\n", self.said(), manifest.trim_end())
    }
}

fn list(title: &str, lines: &[String], colour: Option<AnsiColor>) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let title = paint(colour.map_or(Style::new(), style), title);
    format!("#\n# {title}:\n") + &lines.iter().map(|line| format!("#   - {line}\n")).collect::<String>()
}
