// Filters, keys and transcripts. Everything from the data is set as text (textContent): nothing is ever parsed
// as markup. The data are parsed when the first transcript or search asks for them.
(() => {
  "use strict";
  const PAGE = 200;
  const form = document.querySelector(".filters");
  const alone = document.querySelector(".alone");
  if (!form && !alone) return;
  const rows = [...document.querySelectorAll(".row")];
  const more = document.querySelector(".more");
  let limit = PAGE;
  let parsed = null;
  const data = () => (parsed ??= JSON.parse(document.getElementById("data").textContent));

  const el = (tag, className, ...children) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    for (const child of children) if (child !== null && child !== undefined) node.append(child);
    return node;
  };

  // ---- filters -------------------------------------------------------------------------------------------
  const haystacks = [];
  const haystack = (i) => {
    if (haystacks[i] === undefined) {
      const item = data().cases[i];
      const parts = [item.id, item.input, ...item.metrics.map((metric) => metric[5])];
      for (const lane of item.lanes)
        for (const trial of lane.trials) {
          parts.push(trial.response ?? "", trial.why ?? "");
          for (const call of trial.calls) parts.push(call.n);
        }
      haystacks[i] = parts.join("\n").toLowerCase();
    }
    return haystacks[i];
  };

  const apply = () => {
    const chosen = new FormData(form);
    const verdicts = new Set(chosen.getAll("verdict"));
    const [metric, stratum, tag] = ["metric", "stratum", "tag"].map((name) => chosen.get(name) ?? "");
    const wanted = (chosen.get("text") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    rows.forEach((row, i) => {
      const given = row.dataset;
      const fits =
        verdicts.has(given.v) &&
        (metric === "" || given.m.split(" ").includes(metric)) &&
        (stratum === "" || given.s === stratum) &&
        (tag === "" || given.t.split(" ").includes(tag)) &&
        wanted.every((word) => haystack(i).includes(word));
      if (fits) found += 1;
      row.hidden = !fits || found > limit;
      if (row.nextElementSibling?.classList.contains("case")) row.nextElementSibling.hidden = row.hidden;
    });
    const total = rows.length.toLocaleString("en");
    form.querySelector(".shown").textContent = `${found.toLocaleString("en")} of ${total} items`;
    more.hidden = found <= limit;
    more.firstElementChild.textContent = `Show ${Math.min(PAGE, found - limit).toLocaleString("en")} more`;
  };

  // Pictures of the file, and what is said of those that are not in it.
  const media = (pairs) =>
    (pairs ?? []).map(([hash, text]) => {
      if (!hash) return el("p", "quiet", text);
      const picture = el("img", "picture");
      picture.alt = picture.title = text;
      picture.src = data().pictures[hash];
      return picture;
    });

  // ---- one item ------------------------------------------------------------------------------------------
  const cellOf = (call, lane) => {
    const box = el("div", "call");
    if (lane && call.u) box.append(el("span", `rule ${call.u}`, call.u === "miss" ? "not on tape" : call.u));
    box.append(el("span", "name", call.n));
    if (call.a?.length || call.x) {
      const list = el("dl");
      for (const [key, value, state] of call.a ?? []) {
        const shown = el("dd", state === 2 ? "ignored" : "");
        if (state === 1) {
          const mark = el("mark", "", value);
          mark.title = "differs from the first column";
          shown.append(mark);
        } else shown.append(value);
        list.append(el("dt", "", key), shown);
      }
      for (const key of call.x ?? []) list.append(el("dt", "", key), el("dd", "gone", "missing"));
      box.append(list);
    }
    if (call.s) box.append(el("div", "result", "→ as recorded"));
    else if (call.r !== undefined && call.r !== null) {
      const short = call.r.length <= 120;
      box.append(
        short
          ? el("div", "result", `→ ${call.r}`)
          : el("details", "result", el("summary", "", "result"), el("pre", "", call.r)),
      );
    }
    box.append(...media(call.p));
    if (call.o) box.append(el("p", "note", call.o));
    return box;
  };

  const key = (call) => (call ? JSON.stringify([call.n, (call.a ?? []).filter((arg) => arg[2] !== 2).sort()]) : "");

  // Rows of the grid: for every place of the reference, first what trials did before it, then the place itself.
  const stepsOf = (item, trials) => {
    const before = trials.map(() => Array.from({ length: item.spine + 1 }, () => []));
    const at = trials.map(() => new Map());
    trials.forEach((trial, lane) => {
      let waiting = [];
      for (const call of trial.calls) {
        if (call.m === null) waiting.push(call);
        else {
          before[lane][call.m] = waiting;
          waiting = [];
          at[lane].set(call.m, call);
        }
      }
      before[lane][item.spine] = waiting;
    });
    const steps = [];
    for (let place = 0; place <= item.spine; place += 1) {
      const extra = Math.max(0, ...before.map((lane) => lane[place].length));
      for (let i = 0; i < extra; i += 1) steps.push({ ref: null, calls: before.map((lane) => lane[place][i] ?? null) });
      const calls = at.map((lane) => lane.get(place) ?? null);
      if (place < item.spine && (item.ref || calls.some(Boolean))) {
        steps.push({ ref: item.ref?.calls[place] ?? null, calls });
      }
    }
    return steps;
  };

  const parts = (item, step) => {
    const names = item.lanes.map((lane) => lane.name);
    const [old, now] = [names.indexOf("old"), names.indexOf("new")];
    if (old >= 0 && now >= 0) return key(step.calls[old]) !== key(step.calls[now]);
    const call = step.calls[0];
    if (!step.ref || !call) return Boolean(step.ref) !== Boolean(call);
    return Boolean(call.x) || call.a.some((arg) => arg[2] === 1);
  };

  // Words of `text` that are not in the longest common subsequence with `other`.
  const marked = (text, other) => {
    const box = el("p", "text response");
    const [a, b] = [text, other ?? ""].map((side) => side.split(/(\s+)/));
    if (!other || text === other || a.length * b.length > 640000) {
      box.append(text);
      return box;
    }
    const best = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i -= 1)
      for (let j = b.length - 1; j >= 0; j -= 1)
        best[i][j] = a[i] === b[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    let j = 0;
    let plain = "";
    let changed = "";
    const flush = () => {
      if (plain) box.append(plain);
      if (changed.trim()) box.append(el("mark", "", changed));
      else if (changed) box.append(changed);
      plain = changed = "";
    };
    a.forEach((word, i) => {
      while (j < b.length && best[i][j] === best[i][j + 1]) j += 1;
      if (j < b.length && a[i] === b[j] && best[i][j] === best[i + 1][j + 1] + 1) {
        if (changed) flush();
        plain += word;
        j += 1;
      } else {
        if (plain) flush();
        changed += word;
      }
    });
    flush();
    return box;
  };

  const gradeOf = (grade) => {
    const sign = grade.p === null ? "○" : grade.p ? "✓" : "✗";
    const word = grade.p === null ? "no verdict" : grade.p ? "passed" : "failed";
    const mark = el("b", grade.p === null ? "" : grade.p ? "pass" : "fail", sign);
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", word);
    const line = el("div", "grade", mark, ` ${grade.n} `, el("span", "quiet", grade.s));
    if (grade.w) line.append(el("div", "quiet", grade.w));
    if (grade.v) {
      const list = el("ol");
      for (const [score, reason] of grade.v) list.append(el("li", "", `${score}${reason ? ` ${reason}` : ""}`));
      line.append(el("details", "", el("summary", "", `${grade.v.length} votes`), list));
    }
    return line;
  };

  const draw = (item, shown, grid) => {
    const trials = item.lanes.map((lane, i) => lane.trials[shown[i]]);
    const columns = item.lanes.length + (item.ref ? 1 : 0);
    const table = el("table");
    const caption = el("caption", "unseen", "Tool calls and responses side by side");
    const head = el("tr");
    const title = (text, ...rest) => {
      const cell = el("th", "", text, ...rest);
      cell.scope = "col";
      head.append(cell);
    };
    if (item.ref) title(item.ref.title, el("span", "quiet", item.ref.title === "recording" ? "what production did" : "what the case expects"));
    item.lanes.forEach((lane, i) => {
      const tabs = el("span", "tabs");
      if (lane.trials.length > 1)
        lane.trials.forEach((trial, n) => {
          const failed = trial.bad || trial.grades.some((grade) => grade.p === 0);
          const tab = el("button", failed ? "fail" : "pass", `${n + 1}${failed ? " ✗" : " ✓"}`);
          tab.type = "button";
          tab.setAttribute("aria-pressed", String(n === shown[i]));
          tab.setAttribute("aria-label", `${lane.name}, trial ${n + 1}, ${failed ? "failed" : "passed"}`);
          tab.addEventListener("click", () => {
            shown[i] = n;
            draw(item, shown, grid);
            grid.querySelectorAll(".tabs")[i].children[n].focus();
          });
          tabs.append(tab);
        });
      title(lane.name, tabs, el("span", "quiet", trials[i].facts));
    });
    const body = el("tbody");
    const label = (text, className = "") => {
      const cell = el("td", "", el("span", "", text));
      cell.colSpan = columns;
      body.append(el("tr", `label ${className}`, cell));
    };
    let parted = false;
    const steps = stepsOf(item, trials);
    if (steps.length) label("tool calls");
    for (const step of steps) {
      const differs = parts(item, step);
      if (differs && !parted) {
        label(item.lanes.length > 1 ? "first difference between old and new" : "first difference", "first");
        parted = true;
      }
      const row = el("tr", differs ? "differs" : "");
      if (item.ref) row.append(el("td", "", step.ref ? cellOf(step.ref, false) : el("span", "nothing", "–")));
      for (const call of step.calls) row.append(el("td", "", call ? cellOf(call, true) : el("span", "nothing", "–")));
      body.append(row);
    }
    label("final response");
    const responses = el("tr");
    if (item.ref) {
      const cell = el("td", "", item.ref.response === null ? el("span", "nothing", "–") : el("p", "text response", item.ref.response));
      if (item.ref.expects.length) {
        const list = el("dl");
        for (const [name, text] of item.ref.expects) list.append(el("dt", "", name), el("dd", "", text));
        cell.append(list);
      }
      responses.append(cell);
    }
    const names = item.lanes.map((lane) => lane.name);
    trials.forEach((trial, i) => {
      const cell = el("td");
      if (trial.bad) cell.append(el("p", "status text", `${trial.status}${trial.why ? `: ${trial.why}` : ""}`));
      const other = names[i] === "new" ? trials[names.indexOf("old")] : names[i] === "old" ? trials[names.indexOf("new")] : null;
      if (trial.response !== null) cell.append(marked(trial.response, other?.response));
      else if (!trial.bad) cell.append(el("span", "nothing", "no response"));
      if (trial.user) {
        const list = el("dl");
        for (const [role, text] of trial.user) list.append(el("dt", "", role), el("dd", "text", text));
        cell.append(el("details", "talk", el("summary", "", "turn by turn"), list));
      }
      for (const event of trial.blocked || []) cell.append(el("p", "why", event));
      if (trial.stderr) cell.append(el("details", "", el("summary", "", "what it printed"), el("pre", "stderr", trial.stderr)));
      responses.append(cell);
    });
    body.append(responses);
    if (trials.some((trial) => trial.grades.length)) {
      label("grades");
      const graded = el("tr");
      if (item.ref) graded.append(el("td"));
      for (const trial of trials) graded.append(el("td", "", ...trial.grades.map(gradeOf)));
      body.append(graded);
    }
    table.append(caption, el("thead", "", head), body);
    grid.className = `sides c${columns}`;
    grid.replaceChildren(table);
  };

  const heading = alone ? "h2" : "h3";
  const address = (item) => `#item=${encodeURIComponent(item.id)}`;
  const fill = (cell, item) => {
    for (const lane of item.lanes)
      for (const trial of lane.trials) for (const call of trial.calls) call.a ??= item.ref?.calls[call.m]?.a ?? [];
    if (item.facts.length || item.links.length || !alone) {
      const facts = el("ul", "facts-line");
      for (const [name, value] of item.facts) facts.append(el("li", "", `${name} `, el("b", "", value)));
      for (const [name, address] of item.links) {
        const link = el("a", "", name);
        link.href = address;
        link.rel = "noopener noreferrer";
        link.target = "_blank";
        link.title = address;
        facts.append(el("li", "", link));
      }
      if (!alone) {
        const here = el("a", "", "Link to this item");
        here.href = address(item);
        facts.append(el("li", "", here));
      }
      cell.append(facts);
    }
    cell.append(el(heading, "", "Input"), el("p", "text input", item.input || "(empty)"), ...media(item.media));
    if (item.talk) {
      const list = el("dl");
      for (const [role, text, pairs] of item.talk) list.append(el("dt", "", role), el("dd", "text", text, ...media(pairs)));
      cell.append(el("details", "talk", el("summary", "", `the whole conversation (${item.talk.length} messages)`), list));
    }
    if (item.metrics.length) {
      const body = el("tbody");
      for (const [name, old, now, delta, verdict, reason, word] of item.metrics) {
        const figures = data().check ? now : `${old} → ${now}`;
        body.append(
          el("tr", "", el("th", "", name), el("td", "n", figures), el("td", "n", data().check ? "" : delta),
            el("td", "", el("span", `chip ${word}`, verdict)), el("td", "", reason)),
        );
      }
      cell.append(el(heading, "", "Metrics"), el("table", "scores", body));
    }
    cell.append(el(heading, "", "Side by side"));
    const grid = el("div", "sides");
    grid.tabIndex = 0;
    grid.setAttribute("role", "region");
    grid.setAttribute("aria-label", `Transcripts of ${item.id}`);
    cell.append(grid);
    if (item.lanes.length) {
      const shown = item.lanes.map((lane) => lane.show);
      draw(item, shown, grid);
      // On a phone old and new are in sight, and the recording is to their left.
      if (item.ref)
        requestAnimationFrame(() => {
          if (grid.clientWidth < 480) grid.scrollLeft = grid.querySelector("th:nth-child(2)").offsetLeft;
        });
      // A lane that has no more trials keeps its last.
      grid.addEventListener("next-trial", () => {
        const most = Math.max(...item.lanes.map((lane) => lane.trials.length));
        const next = (Math.max(...shown) + 1) % most;
        item.lanes.forEach((lane, i) => (shown[i] = Math.min(next, lane.trials.length - 1)));
        draw(item, shown, grid);
      });
    } else grid.append(el("p", "quiet", "No trial of this item has finished."));
  };

  const panelOf = (item) => {
    const cell = el("td");
    cell.colSpan = 4;
    fill(cell, item);
    return el("tr", "case", cell);
  };

  // Of the item that has the focus, else of the one that is open alone.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "t" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input:not([type=radio], [type=checkbox]), select, textarea")) return;
    const at = event.target.closest(".row, .case, div.case");
    const cell = alone ?? (at?.classList.contains("row") ? at.nextElementSibling : at);
    cell?.querySelector(".sides")?.dispatchEvent(new Event("next-trial"));
  });

  // A page of one item has no list to open it from.
  if (alone) {
    fill(alone, data().cases[0]);
    return;
  }

  const toggle = (row, open = row.querySelector(".open").getAttribute("aria-expanded") !== "true") => {
    const button = row.querySelector(".open");
    const i = rows.indexOf(row);
    if ((button.getAttribute("aria-expanded") === "true") === open) return;
    button.setAttribute("aria-expanded", String(open));
    row.classList.toggle("is-open", open);
    if (open) {
      row.after(panelOf(data().cases[i]));
      history.replaceState(null, "", location.pathname + address(data().cases[i]));
    } else {
      row.nextElementSibling.remove();
      history.replaceState(null, "", location.pathname);
    }
  };

  // ---- keys and clicks -----------------------------------------------------------------------------------
  document.querySelector(".list").addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row && !getSelection().toString()) toggle(row);
  });
  more.firstElementChild.addEventListener("click", () => {
    limit += PAGE;
    apply();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => {
    limit = PAGE;
    apply();
  });
  let pending = 0;
  form.elements.text.addEventListener("input", () => {
    clearTimeout(pending);
    pending = setTimeout(() => {
      limit = PAGE;
      apply();
    }, 120);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input[type=search], select, textarea");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      form.elements.text.focus();
    } else if (event.key === "Escape") {
      const at = event.target.closest(".row, .case");
      const row = at?.classList.contains("case") ? at.previousElementSibling : at;
      if (row) {
        toggle(row, false);
        row.querySelector(".open").focus();
      } else if (typing) event.target.blur();
    } else if ((event.key === "j" || event.key === "k") && !typing) {
      const visible = rows.filter((row) => !row.hidden);
      const at = event.target.closest?.(".row, .case");
      const now = visible.indexOf(at?.classList.contains("case") ? at.previousElementSibling : at);
      const next = visible[event.key === "j" ? now + 1 : Math.max(0, now - 1)];
      next?.querySelector(".open").focus();
      next?.scrollIntoView({ block: "nearest" });
    }
  });

  form.hidden = false;
  document.querySelector(".keys").hidden = false;
  form.reset();
  apply();
  // `#item=ID` is the address of an item; `replay view ID` writes `?item=ID`, which survives its sign-in.
  const wanted = () => {
    const hash = /^#item=(.+)$/.exec(location.hash);
    if (!hash) return new URLSearchParams(location.search).get("item");
    try {
      return decodeURIComponent(hash[1]);
    } catch {
      return hash[1];
    }
  };
  const openWanted = () => {
    const id = wanted();
    if (id === null) return;
    const i = data().cases.findIndex((item) => item.id === id);
    if (i < 0) {
      form.querySelector(".shown").textContent = `no item ${id} on this page`;
      return;
    }
    rows[i].hidden = false;
    toggle(rows[i], true);
    rows[i].scrollIntoView();
  };
  addEventListener("hashchange", openWanted);
  openWanted();
})();
