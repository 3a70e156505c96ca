// Notes what an agent tries to reach that its boundary blocks, with the line of the agent that led to it.
//
// The kernel refuses; this only looks at the sockets that Node connects, and at how they end. `REPLAY_BOUNDARY`
// is described in `replay/worker/blocked.py`.

import { Socket } from "node:net";

import { lineOf } from "./answers.mjs";
import { LIVE, TRIAL, running } from "./calls.mjs";

const MOST_EVENTS = 50;
const [MAJOR, MINOR] = process.versions.node.split(".").map(Number);
/** This Node sends its requests through the proxy of NODE_USE_ENV_PROXY. */
const USES_PROXY = MAJOR > 24 || (MAJOR === 24 && MINOR >= 5) || (MAJOR === 22 && MINOR >= 21);

export class Observer {
  #before = record();
  #trials = new Map();
  #hasBegun = false;

  /** Observe from now on, if the environment describes a boundary. */
  constructor() {
    const described = JSON.parse(process.env.REPLAY_BOUNDARY ?? "null");
    delete process.env.REPLAY_BOUNDARY;
    if (!described) return;
    this.needsProxy = described.kind === "landlock" && !USES_PROXY;
    this.reachable = described.reachable.map(pattern);
    this.proxy = Number(/:(\d+)\/?$/.exec(process.env.HTTPS_PROXY ?? "")?.[1]);
    const { connect } = Socket.prototype;
    const watch = (socket, args) => this.#watch(socket, args);
    Socket.prototype.connect = function (...args) {
      watch(this, Array.isArray(args[0]) ? args[0] : args);
      return connect.apply(this, args);
    };
  }

  begin(trial) {
    this.#trials.set(trial, this.#hasBegun ? record() : this.#before);
    this.#hasBegun = true;
  }

  /** Return what a trial tried in vain, and when it asked the proxy. */
  end(trial) {
    const events = this.#trials.get(trial);
    this.#trials.delete(trial);
    return events ? reported(events) : {};
  }

  /** Return why a host's name was not resolved, to be put after a failure's reason; empty where it was. */
  explanation(reason) {
    if (!this.needsProxy || !/ENOTFOUND|EAI_AGAIN/.test(reason)) return "";
    return `; Node ${process.versions.node} does not use the proxy of this boundary: run it with Node 22.21, 24.5 or later, or with boundary = "namespaces"`;
  }

  before() {
    return reported(this.#before);
  }

  #watch(socket, [target]) {
    const trial = TRIAL.getStore() ?? (running.size === 1 ? running.keys().next().value : undefined);
    const events = trial === undefined ? (this.#hasBegun ? undefined : this.#before) : this.#trials.get(trial);
    const port = Number(target?.port ?? target);
    // A socket with a path is nobody's outside.
    if (!events || !port) return;
    const limit = Error.stackTraceLimit;
    Error.stackTraceLimit = 50;
    const at = lineOf(new Error().stack);
    Error.stackTraceLimit = limit;
    const inTool = LIVE.getStore() !== undefined;
    const now = Number(process.hrtime.bigint()) / 1e9;
    // Of an attempt that fails, the error says where it led.
    socket.once("error", (error) => {
      for (const cause of error.errors ?? [error]) {
        const host = cause.hostname ?? (cause.address?.includes(":") ? `[${cause.address}]` : cause.address);
        const what = host && `${host}:${cause.port ?? port}`;
        if (what && !/^(?:ECONNRESET|EPIPE)$/.test(cause.code) && !this.#isReachable(what)) keep(events.blocked, what, [at, inTool]);
      }
    });
    socket.once("connect", () => {
      if (socket.remotePort === this.proxy && events.proxied.length < MOST_EVENTS) events.proxied.push([now, at, inTool]);
    });
  }

  #isReachable(what) {
    return this.reachable.some((each) => each.test(what)) || what.endsWith(`:${this.proxy}`);
  }
}

function record() {
  return { blocked: new Map(), proxied: [] };
}

function keep(events, what, how) {
  if (!events.has(what) && events.size < MOST_EVENTS) events.set(what, how);
}

function reported({ blocked, proxied }) {
  const listed = [...blocked].map(([what, how]) => [what, ...how]);
  return { ...(listed.length ? { blocked: listed } : {}), ...(proxied.length ? { proxied } : {}) };
}

function pattern(destination) {
  return new RegExp(`^${destination.replaceAll(/[.+?^${}()|[\]\\]/g, "\\$&").replaceAll("*", "[^.]*")}$`);
}
