(() => {
  'use strict';
  const VERSION = '2026-01-26';
  const PATIENCE = 15000; // Milliseconds until a client that does not answer counts as one that shows no views.
  const tool = document.body.dataset.tool;
  const page = document.documentElement;
  const [main, title, status, content, problem] = ['main', '#title', '#status', '#content', '#problem'].map(
    (selector) => document.querySelector(selector));

  // The client: JSON-RPC by messages to the window around this one.

  const host = window.parent;
  const waiting = new Map();
  let number = 0;
  let abilities = {};

  const post = (message) => host.postMessage({ jsonrpc: '2.0', ...message }, '*');
  const notify = (method, params = {}) => post({ method, params });
  const request = (method, params) => new Promise((resolve, reject) => {
    number += 1;
    waiting.set(number, { resolve, reject });
    post({ id: number, method, params });
  });

  const answer = ({ id, result, error }) => {
    const { resolve, reject } = waiting.get(id) ?? {};
    waiting.delete(id);
    if (error) reject?.(new Error(String(error.message ?? 'the client refused')));
    else resolve?.(result ?? {});
  };

  const handlers = {
    'ui/notifications/tool-input': (params) => view.input?.(params.arguments ?? {}),
    'ui/notifications/tool-result': (params) => shown(() => view.result(params)),
    'ui/notifications/tool-cancelled': (params) => fail(`The call was cancelled: ${params.reason ?? 'no reason given'}`),
    'ui/notifications/host-context-changed': (params) => follow(params),
  };

  window.addEventListener('message', (event) => {
    const message = event.data;
    if (event.source !== host || message === null || typeof message !== 'object' || message.jsonrpc !== '2.0') return;
    if (message.method === undefined) answer(message);
    else if (message.id === undefined) handlers[message.method]?.(message.params ?? {});
    else if (['ping', 'ui/resource-teardown'].includes(message.method)) post({ id: message.id, result: {} });
    else post({ id: message.id, error: { code: -32601, message: `no method ${message.method}` } });
  });

  // No model sees the answers to calls that have this mark, so they do not count as told to it.
  const call = (name, given) =>
    request('tools/call', { name, arguments: given, _meta: { 'skillserve/view': true } });

  // What the client looks like.

  const follow = ({ theme, styles, safeAreaInsets }) => {
    if (theme === 'light' || theme === 'dark') page.dataset.theme = theme;
    for (const [name, value] of Object.entries(styles?.variables ?? {})) {
      if (/^--[a-z0-9-]+$/.test(name) && typeof value === 'string') page.style.setProperty(name, value);
    }
    for (const side of ['top', 'right', 'bottom', 'left']) {
      const inset = safeAreaInsets?.[side];
      if (typeof inset === 'number') document.body.style.setProperty(`padding-${side}`, `${inset}px`);
    }
  };

  let height = 0;
  const report = () => {
    const now = Math.ceil(document.body.getBoundingClientRect().height);
    if (now !== height) notify('ui/notifications/size-changed', { height: height = now });
  };

  // Texts of skills are strangers' texts: they become text nodes, and what is hidden in them is shown.

  const UNSEEN = /[\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}]|(?![\t\n])\p{Cc}/gu;
  const JOINS = /[\p{L}\p{M}\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f]/u;
  const joins = (text, at) => /[\u200c\u200d]/.test(text[at]) && at > 0
    && [...text.slice(Math.max(0, at - 2), at)].slice(-1).concat([...text.slice(at + 1, at + 3)].slice(0, 1))
      .every((each) => JOINS.test(each) && each > '\u007f');

  const write = (node, given) => {
    const text = String(given ?? '').replaceAll('\r\n', '\n');
    let from = 0;
    for (const { 0: found, index } of text.matchAll(UNSEEN)) {
      if (joins(text, index)) continue;
      const code = found.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');
      node.append(text.slice(from, index), make('span', { className: 'unseen', title: 'a hidden character' }));
      node.lastChild.textContent = `[U+${code}]`;
      from = index + found.length;
    }
    node.append(text.slice(from));
    return node;
  };

  const make = (tag, { attributes = {}, ...properties } = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    for (const child of children) {
      if (child instanceof Node) node.append(child);
      else if (child) write(node, child);
    }
    return node;
  };
  const foreign = (text) => make('bdi', { dir: 'auto' }, text);
  const button = (label, act, properties = {}) => make('button', { type: 'button', onclick: act, ...properties }, label);
  const badge = (label, tone) => make('span', { className: `badge ${tone}` }, label);

  const long = (text, label) => {
    const box = make('div', { className: 'text', tabIndex: 0, dir: 'auto' }, text);
    box.setAttribute('role', 'region');
    box.setAttribute('aria-label', label);
    const more = button('Show all of it', () => {
      more.textContent = box.classList.toggle('whole') ? 'Show less' : 'Show all of it';
    });
    more.hidden = true;
    requestAnimationFrame(() => { more.hidden = box.scrollHeight <= box.clientHeight; });
    return [box, more];
  };

  const facts = (pairs) => {
    const list = make('dl');
    for (const [name, value] of pairs) if (value) list.append(make('dt', {}, name), make('dd', {}, foreign(value)));
    return list.childElementCount ? list : null;
  };

  const fill = (...nodes) => content.replaceChildren(...nodes.flat().filter(Boolean));

  const fail = (text) => {
    main.removeAttribute('aria-busy');
    status.textContent = '';
    problem.replaceChildren();
    write(problem, text);
  };

  const shown = (render) => {
    main.removeAttribute('aria-busy');
    problem.replaceChildren();
    try {
      render();
    } catch {
      fail('The result cannot be shown: it has another form than this view expects.');
    }
  };

  const texts = (result) => (result?.content ?? []).filter((block) => block?.type === 'text').map((block) => block.text);
  const textOf = (result) => texts(result).join('\n\n');
  const structureOf = (result) => result?._meta?.['skillserve/structure'] ?? result?.structuredContent;

  // Work that a button begins: the button waits, and what goes wrong is shown.
  const during = async (pressed, work) => {
    if (pressed.getAttribute('aria-disabled') === 'true') return;
    pressed.setAttribute('aria-disabled', 'true');
    problem.replaceChildren();
    try {
      await work();
    } catch (error) {
      fail(`That did not work: ${error.message}`);
    } finally {
      pressed.removeAttribute('aria-disabled');
    }
  };

  // find_skills

  const finder = () => {
    const field = make('input', { type: 'search', id: 'query', maxLength: 2000, autocomplete: 'off' });
    const go = button('Search', () => during(go, search), { className: 'main' });
    const list = make('ul', { attributes: { 'aria-label': 'Skills that fit' } });
    let latest = 0;

    const search = async () => {
      const mine = latest += 1;
      const query = field.value.trim();
      if (!query) {
        status.textContent = 'Say what a skill should do.';
        field.focus();
        return;
      }
      status.textContent = 'Searching …';
      const result = await call('find_skills', { query });
      if (mine === latest) shown(() => fillList(result));
    };

    const fillList = (result) => {
      list.replaceChildren();
      if (result.isError) return fail(textOf(result) || 'The search failed.');
      const found = structureOf(result);
      if (found === undefined) {
        status.textContent = 'The client passes on the text alone.';
        list.append(make('li', {}, ...long(textOf(result), 'Result')));
        return;
      }
      const count = found.matches.length;
      status.textContent = '';
      if (!count) write(status, found.note ?? 'No skill fits.');
      else write(status, `${count === 1 ? '1 skill fits' : `${count} skills fit`}, best first. ${found.left_out ?? ''}`);
      list.append(...found.matches.map(entry));
    };

    const entry = (match, place) => {
      const body = make('div', { id: `skill-${place}`, hidden: true });
      const opener = button('', () => during(opener, open), {
        attributes: { 'aria-expanded': 'false', 'aria-controls': body.id },
      });
      opener.append(foreign(match.name));
      const open = async () => {
        const opens = body.hidden;
        if (opens && !body.childElementCount) {
          const result = await call('read_skill_file', { skill: match.name, path: match.uri });
          if (result.isError) throw new Error(textOf(result));
          const [text = '', ...notes] = texts(result);
          const use = button('Use this skill', () => during(use, () => choose(match.name)), { className: 'main' });
          body.append(...long(text || 'The file is empty.', `Text of ${match.name}`),
            ...notes.map((note) => make('p', { className: 'faint' }, note)),
            make('div', { className: 'actions' }, use));
        }
        body.hidden = !opens;
        opener.setAttribute('aria-expanded', String(opens));
      };
      const heading = make('h2', {}, abilities.serverTools ? opener : foreign(match.name));
      const words = match.weak ? String(match.why).replace(/^weak(: )?/, '') : match.why;
      const why = make('p', { className: 'faint' }, words ? 'Found by: ' : '', foreign(words));
      if (match.weak) why.append(' ', badge('weak match', 'doubtful'));
      return make('li', {}, heading, make('p', {}, foreign(match.description)), why, body);
    };

    const choose = async (name) => {
      const text = `Use the skill ${JSON.stringify(name)}.`;
      await request('ui/message', { role: 'user', content: [{ type: 'text', text }] });
      status.textContent = 'The model was asked to use this skill.';
    };

    field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.isComposing) go.click();
    });
    return {
      title: 'Skills',
      start: () => {
        // Not a form: a frame may forbid forms, which then do not even tell of themselves.
        const box = make('div', { attributes: { role: 'search' } },
          make('label', { htmlFor: 'query' }, 'What should a skill do?'), field, go);
        fill(abilities.serverTools ? box : null, list);
      },
      input: (given) => {
        field.value = typeof given.query === 'string' ? given.query : '';
        status.textContent = 'Searching …';
      },
      result: (result) => {
        latest += 1;
        fillList(result);
      },
    };
  };

  // activate_skill

  const activation = () => {
    let values = [];
    return {
      title: 'Skill',
      input: (given) => {
        write(title, given.name ? `: ${given.name}` : '');
        values = Object.entries(given.arguments ?? {}).map(([name, value]) => [name, String(value)]);
        status.textContent = 'Loading …';
      },
      result: (result) => {
        if (result.isError) return fail(textOf(result) || 'The skill was not activated.');
        const about = result._meta?.['skillserve/skill'];
        status.textContent = '';
        if (about) {
          title.replaceChildren('Skill: ', foreign(about.name));
          status.append(about.unchanged
            ? badge('unchanged: the model has it already', 'good')
            : badge(about.rest === undefined ? 'given to the model' : 'its beginning was given to the model', 'good'));
        }
        const digest = String(about?.digest ?? '').replace(/^(sha256:)?(.{12}).*$/, '$2');
        fill(facts([...values, ['From', about?.uri], ['Version', digest]]),
          long(textOf(result) || 'The result has no text.', 'What the model was given'));
      },
    };
  };

  // run_skill, run_workflow

  const TONES = { completed: 'good', needs_consent: 'doubtful', not_finished: 'doubtful' };

  const run = () => {
    // What became of the run is told to the model only if this view, and not the model, has called for it.
    const resume = (given, words) => async () => {
      status.textContent = 'The run goes on …';
      const result = await call(tool, given);
      shown(() => render(result));
      title.focus();
      const state = structureOf(result)?.status;
      if (![undefined, 'needs_consent', 'not_finished'].includes(state)) await tell(words, textOf(result));
    };

    const tell = async (words, outcome) => {
      const block = (text) => [{ type: 'text', text }];
      const quoted = `${words} This is what came of the run:\n\n${outcome.replace(/^/gm, '> ')}`;
      if (abilities.updateModelContext) {
        await request('ui/update-model-context', { content: block(quoted) });
        if (abilities.message) await request('ui/message', { role: 'user', content: block(`${words} Go on.`) });
      } else if (abilities.message) {
        await request('ui/message', { role: 'user', content: block(quoted) });
      } else {
        content.append(make('p', { className: 'faint' }, 'The client does not let views tell the model of this.'));
      }
    };

    const asked = (found) => {
      title.textContent = 'The run asks for your consent';
      const choices = make('div', { className: 'actions' });
      const choice = (label, given, words) => {
        const act = resume(given, words);
        const pressed = button(label, () => during(pressed, async () => {
          // Each answer is good for one call.
          for (const each of choices.children) each.disabled = true;
          await act();
        }));
        return pressed;
      };
      if (abilities.serverTools) {
        choices.append(
          choice('Allow', { confirm: found.confirm }, 'I have allowed the step that the run asked me about.'),
          choice('Do not allow', { continue: found.continue }, 'I have not allowed the step that the run asked me about.'));
      } else {
        choices.append('Answer in the conversation: the client does not let views call tools.');
      }
      fill(long(found.question, 'What you are asked'), choices);
    };

    const outcome = (found, result) => {
      title.textContent = tool === 'run_workflow' ? 'Workflow' : 'Run of a skill';
      const name = found.skill ?? found.workflow;
      if (name) title.append(': ', foreign(name));
      const calls = (found.tool_calls ?? []).filter((each) => each.decision !== 'done');
      fill(facts([
        ['Score', found.score ? `${found.score.overall} of 1. ${found.score.finding}` : ''],
        ['Problem', found.problem ? `${found.problem}: ${found.message}` : ''],
        ...(found.steps ?? []).map((step) => [step.name, step.status]),
        ...calls.map((each) => [`Not done: ${each.tool}`, each.reason || each.decision]),
        ['Run', found.run_id],
      ]), long(found.output || textOf(result) || 'There is no output.', 'Output'));
    };

    const render = (result) => {
      const found = structureOf(result);
      status.textContent = '';
      if (found === undefined) {
        if (result.isError) fail(textOf(result) || 'The run failed.');
        else fill(long(textOf(result), 'Result'));
        return;
      }
      if (found.status !== 'needs_consent') {
        status.append(badge(String(found.status).replaceAll('_', ' '), TONES[found.status] ?? 'bad'));
      }
      if (found.status === 'needs_consent') asked(found);
      else outcome(found, result);
    };

    return {
      title: tool === 'run_workflow' ? 'Workflow' : 'Run of a skill',
      input: (given) => {
        if (given.name) title.append(': ', foreign(given.name));
        status.textContent = 'Running …';
      },
      result: render,
    };
  };

  const view = { find_skills: finder, activate_skill: activation }[tool]?.() ?? run();

  const begin = async () => {
    title.textContent = view.title;
    title.tabIndex = -1;
    status.textContent = 'Waiting for the client …';
    if (host === window) return fail('This page belongs into a client that shows views (MCP Apps).');
    const late = setTimeout(() => fail('The client around this page does not answer.'), PATIENCE);
    try {
      const given = await request('ui/initialize', {
        protocolVersion: VERSION, appInfo: { name: 'skillserve', version: '1' },
        appCapabilities: { availableDisplayModes: ['inline', 'fullscreen'] },
      });
      abilities = given.hostCapabilities ?? {};
      follow(given.hostContext ?? {});
    } catch (error) {
      return fail(`The client does not show this view: ${error.message}`);
    } finally {
      clearTimeout(late);
    }
    problem.replaceChildren();
    status.textContent = '';
    view.start?.();
    notify('ui/notifications/initialized');
    new ResizeObserver(report).observe(document.body);
  };
  begin();
})();
