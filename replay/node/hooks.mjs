// Changes the text of modules as they are loaded, so that what a module defines can be replaced everywhere:
// for those who import it, and within the module itself.
//
// A function declaration is hoisted and its binding can be assigned, so a statement in front of the module
// replaces it before anything of the module runs. A statement at the end does the same for `const` (which
// becomes `let`), `let` and classes. Both call what `main.mjs` installs as `REPLACE`; neither changes a line number.

export const REPLACE = "globalThis[Symbol.for('replaydiff.replace')]";

/** Modules to change: `{points: {url: {name: key}}, packages: [{key, pattern, names}]}`. */
let plan = { points: {}, packages: [] };

/** Take the plan over; Node calls this in the thread of the hooks, where they have one of their own. */
export function initialize(data) {
  plan = data;
}

/** The hook of `module.register` (Node 20.6 and later). */
export async function load(url, context, nextLoad) {
  return changed(url, await nextLoad(url, context));
}

/** The same for `module.registerHooks` (Node 22.15 and later), which also covers `require`. */
export function loadSync(url, context, nextLoad) {
  return changed(url, nextLoad(url, context));
}

/** Return the text of a module with its definitions replaced; undefined where it has none of them. */
export function changedText(url, text) {
  if (!mayChange(url) || text.includes(REPLACE)) return undefined;
  const names = wanted(url, text);
  if (!names) return undefined;
  let [code, before, after, exported] = [text, "", "", ""];
  for (const [name, key, isChecked] of names) {
    const local = localName(text, name);
    if (!/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(local)) continue;
    const escaped = local.replaceAll("$", "\\$");
    code = code.replace(new RegExp(`(^|[;}])(\\s*(?:export\\s+)?)const(\\s+${escaped}\\s*[=:])`, "mu"), "$1$2let$3");
    before += replacement(key, name, local);
    after += replacement(key, name, local);
    exported += `;try{module.exports=${REPLACE}.in(${JSON.stringify(key)},${JSON.stringify(name)},module.exports)}catch{};`;
    if (isChecked) exported += `;${REPLACE}.check(${JSON.stringify(key)},${JSON.stringify(name)});`;
  }
  const head = /^(?:#!.*\n)?(?:\s|\/\/.*\n|\/\*[^]*?\*\/)*(?:(['"])use strict\1)?(?:.*\(\(\)=>\{\n)?/.exec(code)[0];
  // tsx puts a CommonJS module into a function.
  const tail = head.endsWith("(()=>{\n") ? code.lastIndexOf("\n})()") : code.length;
  return `${head}${before}${code.slice(head.length, tail)}\n${after}${code.slice(tail)}${exported}\n`;
}

/** Return a statement that replaces what a name is bound to; without effect where it has no value yet. */
function replacement(key, name, target) {
  const [definition, by] = [`${JSON.stringify(key)},${JSON.stringify(name)}`, REPLACE];
  return `;try{${target}=${by}.with(${definition},${target});${by}.done(${definition},${target})}catch{};`;
}

function changed(url, loaded) {
  // A CommonJS module without its text is compiled by Node's own loader, which `main.mjs` looks after.
  if (loaded.source == null || !/^(commonjs|module)/.test(loaded.format ?? "")) return loaded;
  const code = changedText(url, textOf(loaded.source));
  return code === undefined ? loaded : { ...loaded, source: code };
}

function textOf(source) {
  return typeof source === "string" ? source : new TextDecoder().decode(source);
}

function bare(url) {
  return url.split(/[?#]/, 1)[0];
}

function mayChange(url) {
  return bare(url) in plan.points || plan.packages.some(({ pattern }) => new RegExp(pattern).test(bare(url)));
}

/** Return [name, key] of what a module must have replaced; undefined for nothing. */
function wanted(url, text) {
  const names = Object.entries(plan.points[bare(url)] ?? {});
  for (const { key, pattern, names: defined } of plan.packages)
    if (new RegExp(pattern).test(bare(url)))
      names.push(...defined.filter((name) => defines(text, name)).map((name) => [name, key, true]));
  return names.length ? names : undefined;
}

function defines(text, name) {
  const local = localName(text, name).replaceAll("$", "\\$");
  return new RegExp(`(?:\\b(?:function\\s*\\*?|class|var|let|const)\\s+|[,;]\\s*)${local}\\s*[=(]|\\bclass\\s+${local}\\b`).test(text);
}

/** Return what an export is called within its module: `a` of `export { a as name }`. */
function localName(text, name) {
  const escaped = name.replaceAll("$", "\\$");
  const clause = new RegExp(`\\bexport\\s*\\{[^}]*?([\\p{ID_Continue}$]+)\\s+as\\s+${escaped}\\s*[,}](?![^;\\n]*\\bfrom\\b)`, "u");
  if (name === "default") {
    const declared = /\bexport\s+default\s+(?:async\s+)?(?:function\s*\*?|class)\s+([\p{ID_Continue}$]+)/u.exec(text);
    const assigned = /\bexport\s+default\s+([\p{ID_Continue}$]+)\s*(?:;|$)/mu.exec(text);
    return clause.exec(text)?.[1] ?? declared?.[1] ?? assigned?.[1] ?? "";
  }
  // What bundlers make of it in CommonJS: `name: () => a`.
  const getter = new RegExp(`\\b${escaped}\\s*:\\s*\\(\\)\\s*=>\\s*([\\p{ID_Continue}$]+)`, "u");
  return clause.exec(text)?.[1] ?? getter.exec(text)?.[1] ?? name;
}
