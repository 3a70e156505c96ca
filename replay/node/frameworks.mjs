// The frameworks whose tools are answered. Each is a module of `frameworks/`, and taken out with its line.
//
// A framework has `key`, its name in `tools`; `modules`, `[{pattern, names}]`: what is replaced in which files
// (a pattern of their URL); and `replacing(tools)`, which returns what is called with the name and the value
// of each definition and returns what takes its place. `tools` has `see(name)`, which reports a tool, `live`,
// the names that may run, and `refuse(reason)`, which ends the trial and returns what is to be thrown.

export const FRAMEWORKS = Object.fromEntries([].map((framework) => [framework.key, framework]));
