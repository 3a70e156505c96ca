// Keys, the state of running runs, and the answers of the list. Whatever comes from the server is set as text.
(() => {
  "use strict";
  const help = document.querySelector(".help");
  const typing = (node) => node.matches("input:not([type=radio], [type=checkbox]), select, textarea");
  const links = [...document.querySelectorAll(".list .to")];

  const step = (by) => {
    const at = links.indexOf(document.activeElement);
    const next = links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };

  // A key presses what carries it; of the same key twice, what lies in an open fold comes first.
  const keyed = (key) => {
    const all = [...document.querySelectorAll("[data-key]")].filter((node) => node.dataset.key === key && !node.disabled);
    return all.find((node) => node.closest("details[open]")) ?? all.find((node) => !node.closest("details:not([open]) > form"));
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const fold = event.target.closest?.("details.deed[open]") ?? document.querySelector("details.deed[open]");
    if (event.key === "Escape") {
      if (fold) {
        fold.open = false;
        fold.querySelector("summary").focus();
      } else if (typing(event.target)) event.target.blur();
      else keyed("Escape")?.click();
      return;
    }
    if (typing(event.target)) return;
    if (event.key === "?") {
      help.showModal();
      event.preventDefault();
      return;
    }
    const node = keyed(event.key);
    if (node) {
      event.preventDefault();
      if (node.matches("input[type=search], input[type=text]")) node.focus();
      else {
        if (node.matches("input[type=radio]")) node.focus();
        node.click();
      }
    } else if (links.length && (event.key === "j" || event.key === "k")) step(event.key === "j" ? 1 : -1);
  });

  document.querySelector("[data-help]")?.addEventListener("click", () => help.showModal());
  for (const fold of document.querySelectorAll("details.deed"))
    fold.addEventListener("toggle", () => {
      if (fold.open) fold.querySelector("input[type=radio]:checked, input[type=text], fieldset button").focus();
    });
  // One decision, one form: a second Enter finds nothing to send.
  for (const form of document.querySelectorAll("form[method=post]"))
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "yes";
    });

  // The text of a case: a number for each line, and all lines in sight.
  const text = document.querySelector(".edit textarea");
  if (text) {
    const numbers = document.querySelector(".numbers");
    const count = () => {
      const lines = text.value.split("\n").length;
      text.rows = lines;
      while (numbers.children.length < lines) numbers.append(document.createElement("li"));
      while (numbers.children.length > lines) numbers.lastChild.remove();
    };
    text.addEventListener("input", count);
    text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) text.form.requestSubmit();
    });
    const line = Number(text.dataset.line ?? 1);
    const start = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    text.setSelectionRange(start, start);
    count();
  }

  // On a narrow window the latest run of the plot is in sight.
  const plot = document.querySelector(".trend .wide");
  if (plot) {
    const dot = [...plot.querySelectorAll(".dot")].pop().getBoundingClientRect();
    plot.scrollLeft = Math.max(0, dot.right + 48 - plot.getBoundingClientRect().right);
  }

  const answers = async () => {
    for (const chip of document.querySelectorAll("[data-answer]")) {
      try {
        const found = await (await fetch(chip.dataset.answer)).json();
        chip.textContent = found.answer;
        chip.classList.add(found.tone);
        chip.closest("tr").querySelector(".excerpt").textContent = found.reason;
      } catch {
        chip.textContent = "–";
      }
    }
  };

  const live = document.querySelector("[data-live]");
  const followed = live?.dataset.follow;
  const number = (count) => count.toLocaleString("en");
  const row = (...cells) => {
    const made = document.createElement("tr");
    made.append(...cells);
    return made;
  };
  const cell = (tag, className, ...parts) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...parts);
    return made;
  };

  // What is left at the pace of the last two minutes, once there is one.
  const paces = [];
  const pace = (one) => {
    const now = performance.now() / 1000;
    paces.push([now, one.done]);
    while (paces.length > 2 && paces[0][0] < now - 120) paces.shift();
    const [since, before] = paces[0];
    const speed = (one.done - before) / (now - since);
    if (!(speed > 0)) return "";
    const left = (one.total - one.done) / speed;
    const time = left < 90 ? `${Math.ceil(left)} s` : left < 5400 ? `${Math.round(left / 60)} min` : `${(left / 3600).toFixed(1)} h`;
    return `· ${speed < 1 ? `${(speed * 60).toFixed(0)} a minute` : `${speed.toFixed(1)} a second`}, about ${time} left`;
  };

  const follow = (one) => {
    live.querySelector("progress").value = one.done;
    live.querySelector(".done").textContent = number(one.done);
    live.querySelector(".failed").textContent = one.failed ? `· ${number(one.failed)} failed` : "";
    live.querySelector(".spent").textContent = one.spent ? `· ${one.spent} spent` : "";
    live.querySelector(".pace").textContent = pace(one);
    live.querySelector("[data-rows=lanes]").replaceChildren(
      ...one.lanes.map(([name, ended, ...rest]) => {
        const head = cell("th", "", name);
        head.scope = "row";
        return row(head, cell("td", "", ended), ...rest.map((text) => cell("td", "n", text)));
      }),
    );
    live.querySelector("[data-rows=latest]").replaceChildren(
      ...one.latest.map((trial) =>
        row(
          cell("td", "", cell("span", `chip ${trial.tone}`, trial.status)),
          cell("td", "", cell("span", "code", trial.item), cell("span", "excerpt", `${trial.lane}, trial ${trial.trial}`)),
          cell("td", "", cell("span", "code", trial.path), cell("span", "excerpt", trial.detail)),
          cell("td", "n", `${trial.took} · ${trial.cost}`),
        ),
      ),
    );
  };

  const look = async () => {
    try {
      const state = await (await fetch(`/live.json${followed ? `?run=${encodeURIComponent(followed)}` : ""}`)).json();
      if (state.mark !== live.dataset.live) location.reload();
      for (const one of state.running) {
        const box = live.querySelector(`[data-run="${CSS.escape(one.run)}"]`);
        if (!box) continue;
        const failed = one.failed ? ` · ${number(one.failed)} failed` : "";
        box.querySelector(".count").textContent = `${number(one.done)} of ${number(one.total)} trials${failed}`;
        box.querySelector("progress").value = one.done;
      }
      if (followed && state.run) follow(state.run);
    } catch {
      // The server has ended, or is busy: what is shown stays.
    }
    setTimeout(look, 1500);
  };

  answers();
  if (live) look();
})();
