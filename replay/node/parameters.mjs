// What a function calls its parameters, read from its text: JavaScript keeps no signature.

/**
 * Return the parameters of a function: `{name}` for a plain one, `{fields}` for a destructured object;
 * `optional` where it has a default. Undefined where the function has no text (a native or bound one).
 */
export function parametersOf(fn) {
  const text = Function.prototype.toString.call(fn);
  if (/\{\s*\[native code\]\s*\}$/.test(text)) return undefined;
  if (text.startsWith("class")) {
    const at = /(?:^|[;{}\s])constructor\s*\(/.exec(text);
    return at ? split(inner(text, at.index + at[0].length - 1)).map(parameter) : [];
  }
  const single = /^(?:async\s+)?([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*=>/u.exec(text);
  if (single) return [{ name: single[1] }];
  const open = text.indexOf("(");
  return open < 0 ? undefined : split(inner(text, open)).map(parameter);
}

function parameter(text) {
  const [target, ...value] = splitOnce(text);
  const optional = value.length > 0;
  if (target.startsWith("...")) return { name: target.slice(3), rest: true, optional: true };
  if (!target.startsWith("{")) return { name: target, optional };
  const fields = split(inner(target, 0)).map((field) => /^[\p{ID_Continue}$]+/u.exec(field)?.[0]);
  return { fields: fields.filter(Boolean), optional };
}

function splitOnce(text) {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    if ("([{".includes(text[at])) depth++;
    else if (")]}".includes(text[at])) depth--;
    else if (text[at] === "=" && depth === 0) return [text.slice(0, at).trim(), text.slice(at + 1)];
  }
  return [text.trim()];
}

/** Return the text within the bracket that opens at a position. */
function inner(text, open) {
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    at = skipped(text, at);
    if ("([{".includes(text[at])) depth++;
    else if (")]}".includes(text[at]) && --depth === 0) return text.slice(open + 1, at);
  }
  return "";
}

function split(text) {
  const parts = [];
  let [depth, from] = [0, 0];
  for (let at = 0; at <= text.length; at++) {
    at = Math.min(skipped(text, at), text.length);
    if ("([{".includes(text[at] ?? " ")) depth++;
    else if (")]}".includes(text[at] ?? " ")) depth--;
    else if (at === text.length || (text[at] === "," && depth === 0)) {
      parts.push(text.slice(from, at).replaceAll(/\/\*[^]*?\*\/|\/\/.*/g, "").trim());
      from = at + 1;
    }
  }
  return parts.filter(Boolean);
}

/** Return the position after a string or a comment that begins here; the position itself otherwise. */
function skipped(text, at) {
  const literal = /^(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`|\/\*[^]*?\*\/|\/\/.*)/.exec(text.slice(at, at + 4096));
  return literal ? at + literal[0].length : at;
}
