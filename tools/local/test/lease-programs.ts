/** What whoever leases it lets a container listen on. */
export const CONTAINER_PORT = 8080;
/** What it says to whoever connects. */
export const CONTAINER_GREETING = "hello";

/** Ends when it is told to. */
const ENDS = `process.once("SIGTERM", () => process.exit(0));`;
/** Starts that the directory has seen, this one among them. */
const STARTS = `
  const { appendFileSync, readFileSync } = require("node:fs");
  const startsOn = (disk) => { appendFileSync(disk + "/starts", "."); return readFileSync(disk + "/starts").length; };
`;
/** Says the words to whoever listens there, and calls with what that answers, be it that this takes many tries. */
const ASK = `
  const { connect, createServer } = require("node:net");
  const ask = (address, words, heard) => {
    const [host, port] = address.split(":");
    let text = "";
    const again = () => setTimeout(ask, 200, address, words, heard);
    connect(Number(port), host)
      .on("connect", function () { this.write(words); })
      .on("data", (part) => { text += part; })
      .on("end", () => (text === "" ? again() : heard(text)))
      .on("error", again);
  };
`;

/** Goes on until it is ended. */
export const FOR_EVER = `${ENDS} setInterval(() => {}, 1000);`;

/** Tells in its log what it was given, and, where it knows of a DISK and a STORE, how often it has started on the one and what the other says to its TOKEN; then it greets whoever asks. */
export const CONTAINER = `
  ${ENDS} ${STARTS} ${ASK}
  const { GREETING, TOKEN, DISK, STORE } = process.env;
  const starts = DISK === undefined ? 0 : startsOn(DISK);
  const tell = (store) => console.log(JSON.stringify({ greeting: GREETING, token: TOKEN, starts, store }));
  if (STORE === undefined) { setInterval(() => {}, 1000); tell(null); }
  else {
    createServer((socket) => socket.on("error", () => {}).once("data", () => socket.end(GREETING))).listen(${CONTAINER_PORT});
    ask(STORE, TOKEN, (said) => tell(JSON.parse(said)));
  }
`;

/** Asks whoever listens there, and tells the answer in its log. */
export function askProgram(address: string): string {
  return `${ENDS} ${ASK} setInterval(() => {}, 1000); ask(${JSON.stringify(address)}, "?", (said) => console.log(JSON.stringify(said)));`;
}

/** Stands for a store: tells in its log, and to whoever sends its password, what it was made as. */
function store(hasDisk: boolean): string {
  return `
  ${ENDS} ${STARTS}
  const { ZDB_ADDRESS, ZDB_DATA, ZDB_PASSWORD, ZDB_PORT, ZDB_PUBLIC, ZDB_SIZE_BYTES } = process.env;
  const starts = ${hasDisk ? "startsOn(ZDB_DATA)" : "0"};
  const said = JSON.stringify({ mode: process.argv[1], isPublic: ZDB_PUBLIC, bytes: Number(ZDB_SIZE_BYTES), starts });
  const answer = (words) => (String(words) === ZDB_PASSWORD ? said : JSON.stringify("wrong password"));
  require("node:net")
    .createServer((socket) => socket.on("error", () => {}).once("data", (words) => socket.end(answer(words))))
    .listen(Number(ZDB_PORT), ZDB_ADDRESS, () => console.log(said));
`;
}

/** With which an engine serves stores. The words of its command may have no spaces; one of them is for Kubernetes to replace. */
export function storeEnv({ image, hasDisk }: { readonly image: string; readonly hasDisk: boolean }) {
  const program = `eval(decodeURIComponent("${encodeURIComponent(store(hasDisk))}"))`;
  return { PROVISION_ZDB_IMAGE: image, PROVISION_ZDB_COMMAND: `node --eval ${program} $(ZDB_MODE)` };
}
