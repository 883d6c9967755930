// A page that calls the daemon by gRPC-Web, without a library: messages are encoded and decoded by hand. `GIVEN` has the port and the
// token of the daemon, the paths of all calls, and what the page is to do. Posts what it got to its own server.

const utf8 = new TextEncoder(), text = (bytes) => new TextDecoder().decode(bytes);

// --- Messages

function varint(number) {
  const bytes = [];
  for (; number > 127; number = Math.floor(number / 128)) bytes.push((number % 128) | 128);
  return [...bytes, number];
}

/** Encodes the fields of a message: numbers and texts by the numbers of their fields. */
function encode(fields) {
  return Object.entries(fields).flatMap(([field, value]) => {
    if (typeof value === "number") return [...varint(field * 8), ...varint(value)];
    const bytes = utf8.encode(value);
    return [...varint(field * 8 + 2), ...varint(bytes.length), ...bytes];
  });
}

/** Decodes a message into lists of values by field: numbers and bytes. */
function decode(bytes) {
  const fields = {};
  let at = 0;
  const number = () => {
    let value = 0, weight = 1;
    for (; ; weight *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * weight;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = number(), field = Math.floor(key / 8);
    let value;
    switch (key % 8) {
      case 0: value = number(); break;
      case 1: value = bytes.slice(at, at += 8); break;
      case 2: { const length = number(); value = bytes.slice(at, at += length); break; }
      case 5: value = bytes.slice(at, at += 4); break;
      default: throw new Error(`wire type ${key % 8}`);
    }
    (fields[field] ??= []).push(value);
  }
  return fields;
}

/** Returns the text of a field, or an empty one. */
const word = (message, field) => text(message[field]?.[0] ?? new Uint8Array());

// --- Calls

function frame(message) {
  const length = message.length;
  return new Uint8Array([0, length >>> 24, (length >>> 16) & 255, (length >>> 8) & 255, length & 255, ...message]);
}

function send(host, path, token, fields = {}) {
  const headers = { "content-type": "application/grpc-web+proto", "x-grpc-web": "1" };
  if (token) headers.authorization = `Bearer ${token}`;
  return fetch(`http://${host}:${GIVEN.port}${path}`, { method: "POST", headers, body: frame(encode(fields)) });
}

/** Yields the messages of an answer. Throws unless its status is 0. */
async function* messages(response) {
  const check = (status) => {
    if (status !== "0") throw new Error(`status ${status}`);
  };
  if (response.headers.has("grpc-status")) check(response.headers.get("grpc-status"));
  const reader = response.body.getReader();
  let bytes = new Uint8Array();
  try {
    for (;;) {
      const size = bytes.length < 5 ? 0 : new DataView(bytes.buffer).getUint32(1);
      if (bytes.length >= 5 + size && bytes.length >= 5) {
        const part = bytes.slice(5, 5 + size);
        if (bytes[0] & 128) check(/grpc-status: *(\d+)/.exec(text(part))[1]);
        else yield decode(part);
        bytes = bytes.slice(5 + size);
        continue;
      }
      const { done, value } = await reader.read();
      if (done) return;
      const both = new Uint8Array(bytes.length + value.length);
      both.set(bytes), both.set(value, bytes.length);
      bytes = both;
    }
  } finally {
    await reader.cancel();
  }
}

async function call(path, fields) {
  for await (const message of messages(await send("127.0.0.1", `/watchfire.${path}`, GIVEN.token, fields))) return message;
  return {};
}

// --- What the page does

/** Runs a task to its end, as an interface would. */
async function work() {
  const projects = (await call("ProjectService/ListProjects"))[1].map(decode);
  const project = word(projects[0], 1);
  const script = "```watchfire-script\nsay hello from a page\nwrite n 1\ncommit n\ndone\n```\n";
  const task = (await call("TaskService/CreateTask", { 2: project, 3: "Work", 4: script, 6: "ready" }))[2][0];
  // It follows the project from here on, so nothing of the agent is missed.
  const screens = await send("127.0.0.1", "/watchfire.AgentService/SubscribeScreen", GIVEN.token, { 2: project });
  await call("AgentService/StartAgent", { 2: project, 3: "task", 4: task });
  let shown = "", outcome = "";
  for await (const screen of messages(screens)) {
    shown += (screen[7] ?? []).map(text).join("\n");
    if (screen[11]) {
      outcome = word(decode(screen[11][0]), 2);
      break;
    }
  }
  const state = async () => word(await call("AgentService/GetAgentStatus", { 2: project }), 13);
  while (await state() !== "idle") await new Promise((go) => setTimeout(go, 20));
  const [log] = (await call("LogService/ListLogs", { 2: project, 3: task }))[1].map(decode);
  const read = await call("LogService/GetLog", { 2: project, 3: word(log, 1) });
  return {
    projects: projects.map((it) => word(it, 2)), shown, outcome,
    status: word(read, 9), log: word(read, 8),
  };
}

/** Tries each call, and counts what came of it: "nothing", "opaque", or "an answer". */
async function each(attempt) {
  const results = {};
  for (const path of GIVEN.paths) {
    let result = "nothing";
    try {
      const response = await attempt(path);
      result = response.type === "opaque" ? "opaque" : "an answer";
      // A stream would go on.
      await response.body?.cancel();
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
    results[result] = (results[result] ?? 0) + 1;
  }
  return results;
}

/** Sends what a browser sends without asking the daemon first. Its answer cannot be read; it must have no effect. */
function simple(host, path) {
  const body = new Blob([frame([])], { type: "text/plain" });
  return fetch(`http://${host}:${GIVEN.port}${path}`, { method: "POST", mode: "no-cors", body });
}

const socket = () => new Promise((done) => {
  const socket = new WebSocket(`ws://127.0.0.1:${GIVEN.port}/watchfire.DaemonService/Ping`);
  socket.onopen = () => done("open");
  socket.onerror = () => done("nothing");
});

const deeds = {
  /** The origin is allowed. */
  async friend() {
    return {
      work: await work(),
      bare: await each((path) => send("127.0.0.1", path, "")),
      wrong: await each((path) => send("127.0.0.1", path, "0".repeat(64))),
      renamed: await each((path) => send("evil.test", path, GIVEN.token)),
    };
  },
  /** The origin is allowed, and is a name that leads here. */
  async rebound() {
    return {
      control: Object.keys(await call("DaemonService/GetStatus")).length > 0,
      renamed: await each((path) => send("evil.test", path, GIVEN.token)),
    };
  },
  /** The origin is not allowed. It has the token all the same. */
  async stranger() {
    return {
      asked: await each((path) => send("127.0.0.1", path, GIVEN.token)),
      simple: await each((path) => simple("127.0.0.1", path)),
      fetched: await each((path) => fetch(`http://127.0.0.1:${GIVEN.port}${path}`, { mode: "no-cors" })),
      renamed: await each((path) => simple("evil.test", path)),
      socket: await socket(),
    };
  },
};

const said = await deeds[GIVEN.deed]().catch((error) => ({ error: String(error.stack ?? error) }));
await fetch("/said", { method: "POST", body: JSON.stringify(said) });
