/** For HEALTHCHECK of the images: exit code 0 while /livez answers at the port of MUSTER_HTTP_ADDR. Where that names no port there is none to ask. */
export {};
const { MUSTER_HTTP_ADDR: address = "" } = process.env;
const port = address.slice(address.lastIndexOf(":") + 1);
if (port !== "" && port !== "0") {
  const { ok } = await fetch(`http://127.0.0.1:${port}/livez`);
  process.exitCode = ok ? 0 : 1;
}
