/** HEALTHCHECK of the images: exits with 0 while /livez answers on the port of MUSTER_HTTP_ADDR, or when it names no port. */
export {};
const { MUSTER_HTTP_ADDR: address = "" } = process.env;
const port = address.slice(address.lastIndexOf(":") + 1);
if (port !== "" && port !== "0") {
  const { ok } = await fetch(`http://127.0.0.1:${port}/livez`);
  process.exitCode = ok ? 0 : 1;
}
