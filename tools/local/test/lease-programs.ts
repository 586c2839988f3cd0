/** Port of the leased container. */
export const CONTAINER_PORT = 8080;
/** The reply of the leased container to every client. */
export const CONTAINER_GREETING = "hello";

/** Exits with 0 on SIGTERM. */
const ENDS = `process.once("SIGTERM", () => process.exit(0));`;
/** `startsOn(disk)` counts the starts in a directory, including this one. */
const STARTS = `
  const { appendFileSync, readFileSync } = require("node:fs");
  const startsOn = (disk) => { appendFileSync(disk + "/starts", "."); return readFileSync(disk + "/starts").length; };
`;
/** `ask(address, words, onReply)` sends the words and retries until it gets a reply. */
const ASK = `
  const { connect, createServer } = require("node:net");
  const ask = (address, words, onReply) => {
    const [host, port] = address.split(":");
    let text = "";
    const retry = () => setTimeout(ask, 200, address, words, onReply);
    connect(Number(port), host)
      .on("connect", function () { this.write(words); })
      .on("data", (part) => { text += part; })
      .on("end", () => (text === "" ? retry() : onReply(text)))
      .on("error", retry);
  };
`;

/** Runs until SIGTERM. */
export const FOR_EVER = `${ENDS} setInterval(() => {}, 1000);`;

/** Logs its variables. With a DISK and a STORE, it also logs its starts on the disk and the store's reply to TOKEN, and then greets every client. */
export const CONTAINER = `
  ${ENDS} ${STARTS} ${ASK}
  const { GREETING, TOKEN, DISK, STORE } = process.env;
  const starts = DISK === undefined ? 0 : startsOn(DISK);
  const report = (store) => console.log(JSON.stringify({ greeting: GREETING, token: TOKEN, starts, store }));
  if (STORE === undefined) { setInterval(() => {}, 1000); report(null); }
  else {
    createServer((socket) => socket.on("error", () => {}).once("data", () => socket.end(GREETING))).listen(${CONTAINER_PORT});
    ask(STORE, TOKEN, (reply) => report(JSON.parse(reply)));
  }
`;

/** Sends a request to the address, and logs the reply. */
export function askProgram(address: string): string {
  return `${ENDS} ${ASK} setInterval(() => {}, 1000); ask(${JSON.stringify(address)}, "?", (reply) => console.log(JSON.stringify(reply)));`;
}

/** A stand-in for a store: reports its settings in its log, and to every client that sends its password. */
function store(hasDisk: boolean): string {
  return `
  ${ENDS} ${STARTS}
  const { ZDB_ADDRESS, ZDB_DATA, ZDB_PASSWORD, ZDB_PORT, ZDB_PUBLIC, ZDB_SIZE_BYTES } = process.env;
  const starts = ${hasDisk ? "startsOn(ZDB_DATA)" : "0"};
  const settings = JSON.stringify({ mode: process.argv[1], isPublic: ZDB_PUBLIC, bytes: Number(ZDB_SIZE_BYTES), starts });
  const answer = (words) => (String(words) === ZDB_PASSWORD ? settings : JSON.stringify("wrong password"));
  require("node:net")
    .createServer((socket) => socket.on("error", () => {}).once("data", (words) => socket.end(answer(words))))
    .listen(Number(ZDB_PORT), ZDB_ADDRESS, () => console.log(settings));
`;
}

/** Variables with which an engine serves stores. The words of the command must have no spaces; Kubernetes expands $(ZDB_MODE). */
export function storeEnv({ image, hasDisk }: { readonly image: string; readonly hasDisk: boolean }) {
  const program = `eval(decodeURIComponent("${encodeURIComponent(store(hasDisk))}"))`;
  return { PROVISION_ZDB_IMAGE: image, PROVISION_ZDB_COMMAND: `node --eval ${program} $(ZDB_MODE)` };
}
