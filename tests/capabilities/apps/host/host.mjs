// A host of MCP Apps on the package's bridge: it connects to a server, calls a tool, and shows the tool's page.
// Tests drive it by `window.host`.
import { AppBridge, PostMessageTransport, RESOURCE_MIME_TYPE, getToolUiResourceUri }
  from '@modelcontextprotocol/ext-apps/app-bridge';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const EXTENSION = 'io.modelcontextprotocol/ui';
const SELF = { name: 'host-of-the-tests', version: '1.0.0' };
const frame = document.querySelector('iframe');
const host = window.host = { sent: [], sizes: [], calls: [] };
let client;
let bridge;

host.connect = async (url, modern) => {
  const extensions = { [EXTENSION]: { mimeTypes: [RESOURCE_MIME_TYPE] } };
  const versionNegotiation = { mode: modern ? { pin: '2026-07-28' } : 'legacy' };
  client = new Client(SELF, { capabilities: { extensions }, versionNegotiation });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  host.tools = (await client.listTools()).tools;
};

// What the sandbox of a page on another origin says first.
const sandboxReady = () => new Promise((resolve) => {
  window.addEventListener('message', function ready({ source, data }) {
    if (source !== frame.contentWindow || data?.method !== 'ui/notifications/sandbox-proxy-ready') return;
    window.removeEventListener('message', ready);
    resolve();
  });
});

// Show the page of a tool, called with these arguments. `abilities` are those of a host that passes on everything.
host.show = async (name, given, sandbox, { context = {}, abilities } = {}) => {
  const tool = host.tools.find((each) => each.name === name);
  const { contents: [{ text, mimeType, _meta }] } = await client.readResource({ uri: getToolUiResourceUri(tool) });
  if (mimeType !== RESOURCE_MIME_TYPE) throw new Error(mimeType);
  const offered = abilities ?? { serverTools: {}, message: { text: {} }, updateModelContext: { text: {} } };
  await bridge?.close();
  bridge = new AppBridge(client, SELF, offered, { hostContext: { theme: 'light', ...context, toolInfo: { tool } } });
  bridge.onmessage = async (params) => { host.sent.push(['message', params.content[0].text]); return {}; };
  bridge.onupdatemodelcontext = async (params) => { host.sent.push(['context', params.content[0].text]); return {}; };
  const forward = bridge.oncalltool;
  bridge.oncalltool = async (params, extra) => {
    host.calls.push(params.name);
    return forward ? forward(params, extra) : client.request({ method: 'tools/call', params });
  };
  bridge.onsizechange = ({ height }) => {
    host.sizes.push(height);
    frame.style.height = `${height}px`;
  };
  const initialized = new Promise((resolve) => { bridge.oninitialized = resolve; });
  const ready = sandboxReady();
  frame.src = sandbox;
  await ready;
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  await bridge.sendSandboxResourceReady({ html: text, csp: _meta?.ui?.csp });
  await initialized;
  await bridge.sendToolInput({ arguments: given });
  host.result = await client.callTool({ name, arguments: given });
  await bridge.sendToolResult(host.result);
};

host.give = (result) => bridge.sendToolResult(result);
host.cancel = (reason) => bridge.sendToolCancelled({ reason });
host.become = (context) => bridge.sendHostContextChange(context);
host.teardown = () => bridge.teardownResource({});
