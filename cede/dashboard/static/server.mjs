// Requests to the server of the page, and its stream of changes.

const SILENCE_MS = 40_000;

// The token of `cede dashboard` comes in the fragment, which no server and no log sees, and is kept
// for this tab. In a deployment there is none: a cookie that no script can read has the session.
function token() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem("token") ?? "";
}

export const isOwn = () => Boolean(token());

// With a `body` it is a question, sent as JSON.
export async function ask(path, { signal, body } = {}) {
  const headers = isOwn() ? { Authorization: `Bearer ${token()}` } : {};
  const question = { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(path, { headers, signal, ...(body ? question : {}) });
  if (response.status === 401 && response.headers.has("Cede-Sign-In")) location.assign("sign-in");
  if (!response.ok) {
    throw Object.assign(new Error(await reasonOf(response)), { status: response.status });
  }
  return response;
}

// The server answers in text. What is HTML comes from a gateway before it.
async function reasonOf(response) {
  const isOurs = response.headers.get("Content-Type")?.startsWith("text/plain");
  return isOurs ? (await response.text()).trim() : `a gateway answers with ${response.status}`;
}

// Follows the stream from `version` until it ends. Calls `opened`, and `change` with each change.
// Returns the version to go on from, or null to read all again.
export async function follow(version, opened, change) {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  const response = await ask(`api/changes?after=${version}`, { signal: silence.signal });
  opened();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return version;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events.map(fieldsOf)) {
        if (event.event === "reload") return null;
        if (event.event === "change") {
          version = Number(event.id);
          change(JSON.parse(event.data));
        }
      }
    }
  } catch {
    return version;
  } finally {
    clearTimeout(timer);
    reader.cancel().catch(() => {});
  }
}

function fieldsOf(event) {
  return Object.fromEntries(event.split("\n").map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 2)];
  }));
}

addEventListener("hashchange", token);
